"""The planner of this room: which mechanism keeps a promise with the least error.

`compare` makes every candidate for a window, predicts its error from its claim alone, and keeps the
reasons of those that cannot keep the promise; `choose` returns the best. Nothing is read from data.

A loss in one currency can be kept in a stronger one: Pure(epsilon) keeps Approx(epsilon, delta), and
Pure(sqrt(2 rho)) keeps Zcdp(rho); both are among the candidates.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import isqrt
from typing import Any

from streamgauge.continual.binary import Binary
from streamgauge.continual.buffered_toeplitz import BufferedToeplitz
from streamgauge.continual.exponential_decay import ExponentialDecay
from streamgauge.continual.hybrid import Hybrid
from streamgauge.continual.kary import Kary
from streamgauge.continual.mechanism import Mechanism
from streamgauge.continual.segments import Segments
from streamgauge.continual.simple import SimpleII
from streamgauge.continual.smooth import SmoothBinary
from streamgauge.continual.square_root import SquareRoot
from streamgauge.continual.subtractive import SubtractiveTree
from streamgauge.continual.two_level import TwoLevel
from streamgauge.continual.unbounded_toeplitz import UnboundedToeplitz
from streamgauge.continual.window_sum import WindowSum
from streamgauge.privacy import Event, Loss, Pure, Unit

AHEAD = 2**20  # ticks over which streams without an end are judged
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
WINDOWS = '"running", "each", "sliding TICKS" or "decayed TICKS" (a half-life)'


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
        raise ValueError(f"loss must be one that some mechanism keeps here, got none ({reasons})")

    def __str__(self) -> str:
        title = f"{f'over {self.ticks} ticks':<28} {'mean RMSE':>12} {'last':>12} {'numbers':>10}"
        return "\n".join([title, *map(str, self.candidates)])


def choose(
    loss: Loss,
    *,
    horizon: int | None = None,
    window: str = "running",
    pan_private: bool = False,
    bound: int = 1,
    unit: Unit = Event(),
    memory: int = MEMORY,
) -> Mechanism[Any]:
    """The mechanism of least predicted error among those that keep the promise.

    >>> from streamgauge import Pure
    >>> choose(Pure(1), horizon=1000).branching
    13
    """
    return compare(
        loss,
        horizon=horizon,
        window=window,
        pan_private=pan_private,
        bound=bound,
        unit=unit,
        memory=memory,
    ).best


def compare(
    loss: Loss,
    *,
    horizon: int | None = None,
    window: str = "running",
    pan_private: bool = False,
    bound: int = 1,
    unit: Unit = Event(),
    memory: int = MEMORY,
    ticks: int | None = None,
) -> Comparison:
    """The table behind `choose`: predicted errors over the horizon (or `ticks`), and refusals.

    `memory` is how many numbers a run may keep for each group.
    """
    judged = ticks or horizon or AHEAD
    found = []
    for kept in ways_to_keep(loss):
        for name, make in candidates(window, horizon):
            label = name if kept is loss else f"{name} ({kept.currency})"
            asked = {"bound": bound, "unit": unit, "pan_private": pan_private}
            found.append(_candidate(label, partial(make, kept, asked), judged, memory))
    return Comparison(tuple(sorted(found, key=lambda c: (bool(c.refused), c.rmse))), judged)


def ways_to_keep(loss: Loss) -> Iterator[Loss]:
    """The loss itself, and the pure one that implies it."""
    yield loss
    kept = loss.kept_as
    if not isinstance(kept, Pure):
        epsilon = Fraction(isqrt(int(2 * kept.rho * 2**80)), 2**40)
        yield Pure(max(epsilon, loss.epsilon) if hasattr(loss, "epsilon") else epsilon)


Maker = Callable[[Loss, dict[str, Any]], Mechanism[Any]]


def candidates(window: str, horizon: int | None) -> Iterator[tuple[str, Maker]]:
    """The mechanisms that answer a window, by name."""
    kind, _, size = window.partition(" ")
    if window == "running":
        yield from _running(horizon)
    elif window == "each" or (kind == "sliding" and size.isdecimal() and int(size)):
        yield "WindowSum", _maker(WindowSum, horizon=horizon, window=int(size or 1))
    elif kind == "decayed" and size.isdecimal() and int(size):
        yield "ExponentialDecay", _maker(ExponentialDecay, horizon=horizon, half_life=int(size))
    else:
        raise ValueError(f"window must be {WINDOWS}, got {window!r}")


def _running(horizon: int | None) -> Iterator[tuple[str, Maker]]:
    for cls in UNBOUNDED:
        yield cls.__name__, _maker(cls, horizon=horizon)
    if horizon is not None:
        for cls in BOUNDED:
            yield cls.__name__, _maker(cls, horizon=horizon)
        yield "Binary refined", _maker(Binary, horizon=horizon, refine=True)


def _maker(cls: type[Mechanism[Any]], **settings: Any) -> Maker:
    names = cls.__dataclass_fields__  # type: ignore[attr-defined]

    def make(loss: Loss, asked: dict[str, Any]) -> Mechanism[Any]:
        if asked["pan_private"] and "pan_private" not in names:
            raise ValueError(f"pan_private must be False for {cls.__name__}, got True")
        return cls(loss, **{k: v for k, v in {**settings, **asked}.items() if k in names})  # type: ignore[call-arg]

    return make


def _candidate(name: str, make: Callable[[], Mechanism[Any]], ticks: int, memory: int) -> Candidate:
    try:
        made = make()
    except ValueError as refusal:
        return Candidate(name, refused=str(refusal))
    needs = made.memory()
    reason = f"memory must be at most {memory} numbers a group, got {needs}" if needs > memory else ""
    return Candidate(name, made, made.rmse(ticks), made.stddev(ticks), needs, reason)
