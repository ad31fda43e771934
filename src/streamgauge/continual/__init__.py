"""Counts and sums over a stream, released at every tick: one mechanism per file, and a planner."""

from streamgauge.continual.binary import Binary
from streamgauge.continual.bound import Bound
from streamgauge.continual.buffered_toeplitz import BufferedToeplitz
from streamgauge.continual.choice import Candidate, Comparison, choose, compare
from streamgauge.continual.claim import Claim
from streamgauge.continual.exponential_decay import ExponentialDecay
from streamgauge.continual.hybrid import Hybrid
from streamgauge.continual.kary import Kary
from streamgauge.continual.mechanism import Mechanism
from streamgauge.continual.polynomial_decay import PolynomialDecay
from streamgauge.continual.run import HorizonPassed, Run
from streamgauge.continual.saved import BadSave
from streamgauge.continual.segments import Segments
from streamgauge.continual.simple import SimpleI, SimpleII
from streamgauge.continual.single import InsideStep, RunFailed
from streamgauge.continual.smooth import SmoothBinary
from streamgauge.continual.square_root import SquareRoot
from streamgauge.continual.strategy import Strategy
from streamgauge.continual.subtractive import SubtractiveTree
from streamgauge.continual.two_level import TwoLevel
from streamgauge.continual.unbounded_toeplitz import UnboundedToeplitz
from streamgauge.continual.window_sum import WindowSum

__all__ = [
    "BadSave",
    "Binary",
    "Bound",
    "BufferedToeplitz",
    "Candidate",
    "Claim",
    "Comparison",
    "ExponentialDecay",
    "HorizonPassed",
    "Hybrid",
    "InsideStep",
    "Kary",
    "Mechanism",
    "PolynomialDecay",
    "Run",
    "RunFailed",
    "Segments",
    "SimpleI",
    "SimpleII",
    "SmoothBinary",
    "SquareRoot",
    "Strategy",
    "SubtractiveTree",
    "TwoLevel",
    "UnboundedToeplitz",
    "WindowSum",
    "choose",
    "compare",
]
