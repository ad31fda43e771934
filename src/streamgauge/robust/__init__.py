"""Sketches under an adversary who sees all answers. This protects the sketch's seeds, not the people in the data.

An exact counter needs none of it. Neither does a private continual counter: its proof allows adaptive input.

game               `play`: an adversary chooses each update in view of the answers
adversaries        attacks on the second moment and on CountSketch, and random streams
insertions         updates of the wrapped sketches, which refuse deletions
switching          `SketchSwitching`: a fresh copy for every answer
hidden_copies      `PrivateMedian`: a private median of the copies' answers
sizes              sizes that are proved, and sizes that hold in practice
generalisation     why it works: differential privacy generalises
"""

from streamgauge.robust.adversaries import BatchAttack, MomentAttack, RandomAdversary
from streamgauge.robust.game import Estimator, ExactMoment, GameResult, PointEstimator, StreamAdversary, play
from streamgauge.robust.generalisation import Generalisation, measure_generalisation
from streamgauge.robust.hidden_copies import AnswerLimitError, PrivateMedian
from streamgauge.robust.insertions import AdaptiveDeletionError
from streamgauge.robust.sizes import RobustSizes, find_sizes
from streamgauge.robust.switching import CopiesUsedError, SketchSwitching

__all__ = [
    "AdaptiveDeletionError",
    "AnswerLimitError",
    "BatchAttack",
    "CopiesUsedError",
    "Estimator",
    "ExactMoment",
    "GameResult",
    "Generalisation",
    "MomentAttack",
    "PointEstimator",
    "PrivateMedian",
    "RandomAdversary",
    "RobustSizes",
    "SketchSwitching",
    "StreamAdversary",
    "find_sizes",
    "measure_generalisation",
    "play",
]
