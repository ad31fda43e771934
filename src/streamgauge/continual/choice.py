"""The planner of this room: which mechanism keeps a promise with the least error.

`compare` makes every candidate for a window, predicts its error from its claim alone, and keeps the
reasons of those that cannot keep the promise; `choose` returns the best. Nothing is read from data.

A loss in one currency can be kept in a stronger one: Pure(epsilon) keeps Approx(epsilon, delta), and
Pure(sqrt(2 rho)) keeps Zcdp(rho); both are among the candidates.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import lru_cache, partial
from math import isqrt
from typing import Any, NamedTuple

from streamgauge.continual.binary import Binary
from streamgauge.continual.bound import Bound
from streamgauge.continual.buffered_toeplitz import BufferedToeplitz
from streamgauge.continual.exponential_decay import ExponentialDecay
from streamgauge.continual.hybrid import Hybrid
from streamgauge.continual.kary import Kary
from streamgauge.continual.mechanism import AHEAD, Mechanism
from streamgauge.continual.polynomial_decay import PolynomialDecay
from streamgauge.continual.segments import Segments
from streamgauge.continual.settings import check_bound, check_whole
from streamgauge.continual.simple import SimpleII
from streamgauge.continual.smooth import SmoothBinary
from streamgauge.continual.square_root import SquareRoot
from streamgauge.continual.subtractive import SubtractiveTree
from streamgauge.continual.two_level import TwoLevel
from streamgauge.continual.unbounded_toeplitz import UnboundedToeplitz
from streamgauge.continual.window_sum import WindowSum
from streamgauge.privacy import Approx, Event, Loss, Pure, Unit, Zcdp

MEMORY = 256  # numbers a group may keep
BOUNDED: tuple[type[Mechanism[Any]], ...] = (
    Kary,
    SubtractiveTree,
    Binary,
    TwoLevel,
    SmoothBinary,
    Segments,
    SquareRoot,
    BufferedToeplitz,
)
UNBOUNDED: tuple[type[Mechanism[Any]], ...] = (SimpleII, Hybrid, UnboundedToeplitz)
WINDOWS = '"running", "each", "sliding TICKS", "decayed TICKS" (a half-life) or "decayed polynomial EXPONENT"'
POLYNOMIAL = "decayed polynomial"
_SIZED = re.compile(r"(sliding|decayed|decayed polynomial) ([0-9]{1,18}(?:\.[0-9]{1,18})?)")


ANSWERS: dict[str, type[Mechanism[Any]]] = {
    "window": WindowSum,
    "half_life": ExponentialDecay,
    "exponent": PolynomialDecay,
}


class Window(NamedTuple):
    """A parsed window: its kind, the setting of a mechanism that has its size, and the size."""

    kind: str  # "running", "each", "sliding", "decayed" or "decayed polynomial"
    setting: str  # "window", "half_life", "exponent", or "" for a running count
    size: int | Fraction  # ticks, or the exponent; 0 for a running count


def parse_window(text: str) -> Window:
    """Return the parts of a window; raise ValueError for what is none.

    >>> parse_window("each")
    Window(kind='each', setting='window', size=1)
    >>> parse_window("decayed polynomial 1.5")
    Window(kind='decayed polynomial', setting='exponent', size=Fraction(3, 2))
    """
    if text in ("running", "each"):
        return Window(text, "window" if text == "each" else "", int(text == "each"))
    match = _SIZED.fullmatch(str(text))
    size = Fraction(match[2]) if match else Fraction(0)
    if match and match[1] == POLYNOMIAL and size > 0:
        return Window(POLYNOMIAL, "exponent", size)
    if match and match[1] != POLYNOMIAL and match[2].isdecimal() and size > 0:
        return Window(match[1], "window" if match[1] == "sliding" else "half_life", int(size))
    raise ValueError(f"window must be {WINDOWS}, got {text!r}")


@dataclass(frozen=True)
class Candidate:
    """One mechanism's line in a comparison: what it predicts, or why it is out."""

    name: str
    mechanism: Mechanism[Any] | None = None
    rmse: float = float("inf")  # root of the mean squared error over the ticks compared
    last: float = float("inf")  # standard error at the last of them
    memory: int = 0  # numbers a group keeps
    refused: str = ""

    def __str__(self) -> str:
        if self.refused:
            return f"{self.name:<28} refused: {self.refused}"
        return f"{self.name:<28} {self.rmse:>12.4g} {self.last:>12.4g} {self.memory:>10}"


@dataclass(frozen=True)
class Comparison:
    """Candidates, best first, then those refused; print it for a table."""

    candidates: tuple[Candidate, ...]
    ticks: int

    @property
    def best(self) -> Mechanism[Any]:
        for candidate in self.candidates:
            if candidate.mechanism is not None and not candidate.refused:
                return candidate.mechanism
        reasons = "; ".join(f"{c.name}: {c.refused}" for c in self.candidates)
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
) -> Mechanism[Any]:
    """The mechanism of least predicted error among those that keep the promise.

    With `open_ticks=True` a tick may come in parts, and the memory is private in the middle of one, too.

    >>> from streamgauge import Pure
    >>> choose(Pure(1), horizon=1000).branching
    13
    """
    asked = Asked(bound, unit, pan_private, open_ticks)
    return _compared(loss, asked, horizon=horizon, window=window, memory=memory).best


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
) -> Comparison:
    """The table behind `choose`: predicted errors over the horizon (or `ticks`), and refusals.

    `memory` is how many numbers a run may keep for each group: 256 unless told otherwise for running
    counts, where there is a choice, and as many as it takes for windows and decays.
    """
    asked = Asked(bound, unit, pan_private, open_ticks)
    return _compared(loss, asked, horizon=horizon, window=window, memory=memory, ticks=ticks)


@dataclass(frozen=True)
class Asked:
    """What every candidate must keep."""

    bound: Bound
    unit: Unit
    pan_private: bool
    open_ticks: bool = False


def _compared(
    loss: Loss,
    asked: Asked,
    *,
    horizon: int | None,
    window: str,
    memory: int | None,
    ticks: int | None = None,
) -> Comparison:
    if not isinstance(loss, Pure | Zcdp | Approx):
        raise ValueError(f"loss must be Pure, Zcdp or Approx, got {loss!r}")
    check_bound(asked.bound)
    for name, value in (("horizon", horizon), ("ticks", ticks)):
        if value is not None:
            check_whole(name, value)
    judged = ticks or horizon or AHEAD
    most = memory if memory is not None else MEMORY if window == "running" else None
    return _judged(loss, asked, horizon, str(window), (judged, most))


@lru_cache(maxsize=64)
def _judged(
    loss: Loss, asked: Asked, horizon: int | None, window: str, limits: tuple[int, int | None]
) -> Comparison:
    """All candidates over so many ticks, within so much memory: worked out once, as claims never change."""
    judged, most = limits
    found = []
    for kept in ways_to_keep(loss):
        for name, make in candidates(window, horizon):
            label = name if kept is loss else f"{name} ({kept.currency})"
            found.append(_candidate(label, partial(make, kept, asked), judged, most))
    return Comparison(tuple(sorted(found, key=lambda c: (bool(c.refused), c.rmse))), judged)


def ways_to_keep(loss: Loss) -> Iterator[Loss]:
    """The loss itself, and the pure one that implies it."""
    yield loss
    kept = loss.kept_as
    if not isinstance(kept, Pure):
        epsilon = Fraction(isqrt(int(2 * kept.rho * 2**80)), 2**40)
        yield Pure(max(epsilon, loss.epsilon) if hasattr(loss, "epsilon") else epsilon)


Maker = Callable[[Loss, Asked], Mechanism[Any]]


def candidates(window: str, horizon: int | None) -> Iterator[tuple[str, Maker]]:
    """The mechanisms that answer a window, by name."""
    kind, setting, size = parse_window(window)
    if kind == "running":
        yield from _running(horizon)
    else:
        cls: type[Mechanism[Any]] = ANSWERS[setting]
        yield cls.__name__, _maker(cls, horizon=horizon, **{setting: size})


def _running(horizon: int | None) -> Iterator[tuple[str, Maker]]:
    for cls in UNBOUNDED:
        ends = {} if horizon is None else {"horizon": horizon, "last_tick": horizon}
        yield cls.__name__, _maker(cls, **ends)
    if horizon is not None:
        for cls in BOUNDED:
            yield cls.__name__, _maker(cls, horizon=horizon)
        yield "Binary refined", _maker(Binary, horizon=horizon, refine=True)


def _maker(cls: type[Mechanism[Any]], **settings: Any) -> Maker:
    claim: Any = cls  # a dataclass that takes `asked`, as all claims do
    names = {field.name for field in fields(claim)}

    def make(loss: Loss, asked: Asked) -> Mechanism[Any]:
        if asked.open_ticks and "open_ticks" not in names:
            raise ValueError(f"open_ticks must be False for {cls.__name__}, got True")
        given = {**settings, **vars(asked)}
        made: Mechanism[Any] = claim(loss, **{name: given[name] for name in given if name in names})
        return made

    return make


def _candidate(name: str, make: Callable[[], Mechanism[Any]], ticks: int, memory: int | None) -> Candidate:
    try:
        made = make()
        needs, rmse, last = made.memory(), made.rmse(ticks), made.stddev(ticks)
    except ValueError as refusal:
        return Candidate(name, refused=str(refusal))
    short = memory is not None and needs > memory
    reason = f"memory must be at least {needs} numbers a group, got {memory}" if short else ""
    return Candidate(name, made, rmse, last, needs, reason)
