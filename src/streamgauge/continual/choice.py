"""The planner of linear mechanisms: the least predicted error for a loss.

`compare` builds every candidate for a window and predicts its error from its settings alone. It lists the reasons
of those that cannot make the promise. `choose` returns the best. No data is read.

A loss in one currency follows from a stronger one. Pure(epsilon) implies Approx(epsilon, delta), Pure(sqrt(2 rho))
implies Zcdp(rho), and Zcdp(rho) implies IntegerZcdp(rho). All are among the candidates. The ledger charges the
`charged_loss` of the choice: only a choice that needs integer orders is charged at them.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import lru_cache, partial
from itertools import chain
from math import isqrt
from typing import Any, NamedTuple

from streamgauge.continual.decay.exponential import ExponentialDecay
from streamgauge.continual.decay.polynomial import PolynomialDecay
from streamgauge.continual.factorizations.buffered_toeplitz import BufferedToeplitz
from streamgauge.continual.factorizations.coefficients import BUFFER_COUNTS
from streamgauge.continual.factorizations.square_root import SquareRoot
from streamgauge.continual.factorizations.unbounded_toeplitz import UnboundedToeplitz
from streamgauge.continual.mechanism import MECHANISMS, UNBOUNDED_PLANNING_TICKS, LinearMechanism
from streamgauge.continual.trees.binary import Binary
from streamgauge.continual.trees.bridge_tree import BridgeTree
from streamgauge.continual.trees.endless_bridge import EndlessBridge
from streamgauge.continual.trees.hybrid import Hybrid
from streamgauge.continual.trees.kary import Kary
from streamgauge.continual.trees.segments import Segments
from streamgauge.continual.trees.simple import SimpleII
from streamgauge.continual.trees.smooth import SmoothBinary
from streamgauge.continual.trees.subtractive import SubtractiveTree
from streamgauge.continual.trees.two_level import TwoLevel
from streamgauge.continual.trees.two_part import TwoPart
from streamgauge.continual.trees.window_bridge import WindowBridge
from streamgauge.continual.trees.window_sum import WindowSum
from streamgauge.continual.validation import Bound, check_bound, check_whole
from streamgauge.privacy import Approx, Event, IntegerZcdp, Loss, Pure, Unit, Zcdp

DEFAULT_MEMORY_NUMBERS = 256  # numbers a group may keep
BOUNDED_MECHANISMS: tuple[type[LinearMechanism[Any]], ...] = (
    Kary,
    BridgeTree,
    SubtractiveTree,
    Binary,
    TwoLevel,
    SmoothBinary,
    Segments,
    SquareRoot,
    BufferedToeplitz,
)
UNBOUNDED_MECHANISMS: tuple[type[LinearMechanism[Any]], ...] = (
    SimpleII,
    Hybrid,
    EndlessBridge,
    UnboundedToeplitz,
    TwoPart,
)
WINDOW_RULE = '"running", "each", "sliding TICKS", "decayed TICKS" (a half-life) or "decayed polynomial EXPONENT"'
POLYNOMIAL_KIND = "decayed polynomial"
LOSS_REFUSAL = "loss must be"  # begins the refusal of a loss of another kind
_SIZED_WINDOW = re.compile(r"(sliding|decayed|decayed polynomial) ([0-9]{1,18}(?:\.[0-9]{1,18})?)")


WINDOW_MECHANISMS: dict[str, tuple[type[LinearMechanism[Any]], ...]] = {
    "window": (WindowSum, WindowBridge),
    "half_life": (ExponentialDecay,),
    "exponent": (PolynomialDecay,),
}


class WindowSpec(NamedTuple):
    """A parsed window: its kind, the setting of a mechanism that has its size, and the size."""

    kind: str  # "running", "each", "sliding", "decayed" or "decayed polynomial"
    setting: str  # "window", "half_life", "exponent", or "" for a running count
    size: int | Fraction  # ticks, or the exponent; 0 for a running count


def parse_window(text: str) -> WindowSpec:
    """Return the parts of a window; raise ValueError for other values.

    >>> parse_window("each")
    WindowSpec(kind='each', setting='window', size=1)
    >>> parse_window("decayed polynomial 1.5")
    WindowSpec(kind='decayed polynomial', setting='exponent', size=Fraction(3, 2))
    """
    if text in ("running", "each"):
        return WindowSpec(text, "window" if text == "each" else "", int(text == "each"))
    match = _SIZED_WINDOW.fullmatch(str(text))
    size = Fraction(match[2]) if match else Fraction(0)
    if match and match[1] == POLYNOMIAL_KIND and size > 0:
        return WindowSpec(POLYNOMIAL_KIND, "exponent", size)
    if match and match[1] != POLYNOMIAL_KIND and match[2].isdecimal() and size > 0:
        return WindowSpec(match[1], "window" if match[1] == "sliding" else "half_life", int(size))
    raise ValueError(f"window must be {WINDOW_RULE}, got {text!r}")


@dataclass(frozen=True)
class Candidate:
    """One mechanism's line in a comparison: its prediction, or the reason for its exclusion."""

    name: str
    mechanism: LinearMechanism[Any] | None = None
    rmse: float = float("inf")  # root of the mean squared error over the ticks compared
    last_stddev: float = float("inf")  # standard error at the last of them
    memory: int = 0  # numbers a group keeps
    refusal: str = ""

    def __str__(self) -> str:
        if self.refusal:
            return f"{self.name:<28} refused: {self.refusal}"
        return f"{self.name:<28} {self.rmse:>12.4g} {self.last_stddev:>12.4g} {self.memory:>10}"


@dataclass(frozen=True)
class MechanismComparison:
    """Candidates, best first, then those refused; print it for a table."""

    candidates: tuple[Candidate, ...]
    ticks: int

    @property
    def best(self) -> LinearMechanism[Any]:
        for candidate in self.candidates:
            if candidate.mechanism is not None and not candidate.refusal:
                return candidate.mechanism
        reasons = "; ".join(f"{c.name}: {c.refusal}" for c in self.candidates)
        raise ValueError(f"settings must be such that some mechanism keeps them, got refusals ({reasons})")

    def __str__(self) -> str:
        title = f"{f'over {self.ticks} ticks':<28} {'mean RMSE':>12} {'last':>12} {'numbers':>10}"
        return "\n".join([title, *map(str, self.candidates)])


def choose(
    loss: Loss,
    *,
    horizon: int | None = None,
    window: str = "running",
    pan_private: bool = False,
    bound: Bound = 1,
    unit: Unit = Event(),
    memory: int | None = None,
    open_ticks: bool = False,
    alternating: bool = False,
) -> LinearMechanism[Any]:
    """Return the mechanism of least predicted error for this promise.

    With `open_ticks=True` a tick may come in parts, and the memory is private in the middle of one, too. With
    `alternating=True` a unit is w moves by 1 that alternate in sign, for the price of w (`bounds_alternating`).

    >>> from streamgauge import Pure
    >>> choose(Pure(1), horizon=1000).radices
    (14, 14)
    """
    settings: dict[str, Any] = {"pan_private": pan_private, "bound": bound, "unit": unit, "open_ticks": open_ticks}
    settings["alternating"] = alternating
    return compare(loss, horizon=horizon, window=window, memory=memory, **settings).best


def compare(
    loss: Loss,
    *,
    horizon: int | None = None,
    window: str = "running",
    pan_private: bool = False,
    bound: Bound = 1,
    unit: Unit = Event(),
    memory: int | None = None,
    ticks: int | None = None,
    open_ticks: bool = False,
    alternating: bool = False,
    plugins: tuple[str, ...] = (),
) -> MechanismComparison:
    """Return predicted errors over the horizon (or `ticks`), and refusals.

    `memory` is the most numbers that a run may store for each group. The default is 256 for running counts, of
    which there are several, and unlimited for windows and decays. `plugins` are packages whose counters (entry
    points of `streamgauge.mechanisms`) are compared too, if the window is "running".
    """
    if not isinstance(loss, Pure | Zcdp | IntegerZcdp | Approx):
        raise ValueError(f"loss must be Pure, Zcdp, IntegerZcdp or Approx, got {loss!r}")
    check_bound(bound)
    for name, value in (("horizon", horizon), ("ticks", ticks)):
        if value is not None:
            check_whole(name, value)
    judged = ticks or horizon or UNBOUNDED_PLANNING_TICKS
    most = memory if memory is not None else DEFAULT_MEMORY_NUMBERS if window == "running" else None
    request = MechanismRequest(bound, unit, pan_private, open_ticks, alternating)
    return _compare_candidates(loss, request, horizon, str(window), (judged, most, plugins))


@dataclass(frozen=True)
class MechanismRequest:
    """Settings that every candidate must have."""

    bound: Bound
    unit: Unit
    pan_private: bool
    open_ticks: bool = False
    alternating: bool = False


@lru_cache(maxsize=256)
def _compare_candidates(
    loss: Loss,
    request: MechanismRequest,
    horizon: int | None,
    window: str,
    limits: tuple[int, int | None, tuple[str, ...]],
) -> MechanismComparison:
    """Return all candidates over so many ticks and so much memory.

    The result is cached, since settings never change.
    """
    judged, most, plugins = limits
    found = []
    for sufficient in list_sufficient_losses(loss):
        for name, make in chain(list_candidates(window, horizon), _list_outside(window, horizon, plugins)):
            label = f"{name} (pure)" if sufficient is not loss and isinstance(sufficient, Pure) else name
            made = _build_candidate(label, partial(make, sufficient, request), judged, most)
            if not (isinstance(loss, IntegerZcdp) and made.refusal.startswith(LOSS_REFUSAL)):
                found.append(made)  # each has its line under the integer orders, or under the zCDP that implies them
    return MechanismComparison(tuple(sorted(found, key=lambda c: (bool(c.refusal), c.rmse))), judged)


def list_sufficient_losses(loss: Loss) -> Iterator[Loss]:
    """Yield the loss itself, and those that imply it."""
    yield loss
    if isinstance(loss, IntegerZcdp):
        yield loss.sufficient_loss
    additive = loss.additive_loss
    if not isinstance(additive, Pure):
        epsilon = Fraction(isqrt(int(2 * additive.rho * 2**80)), 2**40)
        yield Pure(max(epsilon, loss.epsilon) if hasattr(loss, "epsilon") else epsilon)


MechanismFactory = Callable[[Loss, MechanismRequest], LinearMechanism[Any]]


def list_candidates(window: str, horizon: int | None) -> Iterator[tuple[str, MechanismFactory]]:
    """Yield the mechanisms that answer a window, by name."""
    kind, setting, size = parse_window(window)
    if kind != "running":
        for windowed in WINDOW_MECHANISMS[setting]:
            yield windowed.__name__, _build_factory(windowed, horizon=horizon, **{setting: size})
        return
    ends = {} if horizon is None else {"horizon": horizon, "last_tick": horizon}
    for cls in UNBOUNDED_MECHANISMS:
        yield cls.__name__, _build_factory(cls, **ends)
    if horizon is not None:
        for cls in BOUNDED_MECHANISMS:
            yield cls.__name__, _build_factory(cls, horizon=horizon)
        yield "Binary refined", _build_factory(Binary, horizon=horizon, refine=True)
        yield (
            "BufferedToeplitz normalised",
            _build_factory(BufferedToeplitz, horizon=horizon, buffers=max(BUFFER_COUNTS), normalised=True),
        )


def _list_outside(window: str, horizon: int | None, plugins: tuple[str, ...]) -> Iterator[tuple[str, MechanismFactory]]:
    """Counters of other packages; which of them need a horizon, they say by refusing."""
    for name, cls in MECHANISMS.load_outside(plugins).items() if plugins and window == "running" else ():
        if issubclass(cls, LinearMechanism):
            yield name, _build_factory(cls, horizon=horizon)


def _build_factory(cls: type[LinearMechanism[Any]], **settings: Any) -> MechanismFactory:
    claim: Any = cls  # a dataclass, as all mechanisms are
    names = {field.name for field in fields(claim)}

    def build(loss: Loss, request: MechanismRequest) -> LinearMechanism[Any]:
        if request.open_ticks and "open_ticks" not in names:
            raise ValueError(cls.open_ticks_refusal())
        given = {**settings, **vars(request)}
        made: LinearMechanism[Any] = claim(loss, **{name: given[name] for name in given if name in names})
        if request.alternating and not made.bounds_alternating:
            raise ValueError(f"alternating must be False for {made!r}, got True")
        return made

    return build


def _build_candidate(name: str, make: Callable[[], LinearMechanism[Any]], ticks: int, memory: int | None) -> Candidate:
    try:
        made = make()
        needs, rmse, last = made.memory(), made.rmse(ticks), made.stddev(ticks)
    except ValueError as refusal:
        return Candidate(name, refusal=str(refusal))
    short = memory is not None and needs > memory
    reason = f"memory must be at least {needs} numbers a group, got {memory}" if short else ""
    return Candidate(name, made, rmse, last, needs, reason)
