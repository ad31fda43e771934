"""Counts and sums over a stream, released at every tick: one mechanism per file.

mechanism         the base classes `Mechanism` and `LinearMechanism`
run               `Run`: a mechanism, its state and its noise
state_io          saved runs
strategy          the matrices C and B of a linear mechanism
validation        checks of settings
choice            `choose` and `compare`: the least predicted error
trees/            mechanisms that sum noisy blocks
factorizations/   mechanisms with correlated noise
decay/            decayed sums
"""

from streamgauge.continual.choice import Candidate, MechanismComparison, choose, compare
from streamgauge.continual.decay.exponential import ExponentialDecay
from streamgauge.continual.decay.polynomial import PolynomialDecay
from streamgauge.continual.factorizations.buffered_toeplitz import BufferedToeplitz
from streamgauge.continual.factorizations.square_root import SquareRoot
from streamgauge.continual.factorizations.unbounded_toeplitz import UnboundedToeplitz
from streamgauge.continual.mechanism import LinearMechanism, Mechanism
from streamgauge.continual.run import LimitExceededError, Run, RunFailedError
from streamgauge.continual.state_io import InvalidSaveError
from streamgauge.continual.strategy import Strategy
from streamgauge.continual.trees.binary import Binary
from streamgauge.continual.trees.bridge_tree import BridgeTree
from streamgauge.continual.trees.endless_bridge import EndlessBridge
from streamgauge.continual.trees.hybrid import Hybrid
from streamgauge.continual.trees.kary import Kary
from streamgauge.continual.trees.past_bridge import PastBridge
from streamgauge.continual.trees.segments import Segments
from streamgauge.continual.trees.simple import SimpleI, SimpleII
from streamgauge.continual.trees.smooth import SmoothBinary
from streamgauge.continual.trees.subtractive import SubtractiveTree
from streamgauge.continual.trees.two_level import TwoLevel
from streamgauge.continual.trees.two_part import TwoPart
from streamgauge.continual.trees.window_bridge import WindowBridge
from streamgauge.continual.trees.window_sum import WindowSum
from streamgauge.continual.validation import Bound

__all__ = [
    "Binary",
    "Bound",
    "BridgeTree",
    "BufferedToeplitz",
    "Candidate",
    "EndlessBridge",
    "ExponentialDecay",
    "Hybrid",
    "InvalidSaveError",
    "Kary",
    "LimitExceededError",
    "LinearMechanism",
    "Mechanism",
    "MechanismComparison",
    "PastBridge",
    "PolynomialDecay",
    "Run",
    "RunFailedError",
    "Segments",
    "SimpleI",
    "SimpleII",
    "SmoothBinary",
    "SquareRoot",
    "Strategy",
    "SubtractiveTree",
    "TwoLevel",
    "TwoPart",
    "UnboundedToeplitz",
    "WindowBridge",
    "WindowSum",
    "choose",
    "compare",
]
