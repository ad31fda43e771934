"""The planner of running counts of few events: sparse counters, where the curator says that they win.

How many events there are is private. So it is the curator's declaration that decides: `expected`, the events
of one group in one tick, 1/1000 say, is public as every setting is, and together with the horizon predicts
the error of the sparse counters (see `sparse_error`). Where that is below the least of `continual.choose`,
they are offered; without a declaration they never are. Promise and bars hold even if the curator is wrong.

`SparseCounter` takes the split of the budget that is predicted best, and a tree fitted to the segments that
are predicted; values are counts, so that those below 0 count as 0. `CascadingBuffers` is for pan-private
counts, which `SparseCounter` cannot be. Since its intervals are far wider than those of trees, it must be
better by more than what a prediction may be off by.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, inf
from typing import Any

from streamgauge.adaptive.cascading_buffers import CascadingBuffers
from streamgauge.adaptive.sparse_counter import SparseCounter
from streamgauge.adaptive.sparse_error import cascade_error, sparse_error
from streamgauge.continual import choice as continual
from streamgauge.continual.bound import Bound
from streamgauge.continual.claim import Claim
from streamgauge.continual.mechanism import AHEAD, Mechanism
from streamgauge.noise.numbers import Number, rational
from streamgauge.privacy import Event, Loss, Unit

SPLITS = (Fraction(3, 10), Fraction(2, 5), Fraction(1, 2), Fraction(3, 5))
CLEARLY = 0.8  # of the least error, below which a pan-private one is offered


@dataclass(frozen=True)
class Offer:
    """A sparse counter: what it is predicted to be off by, or why it is not offered."""

    name: str
    claim: Claim[Any, Any] | None = None
    rmse: float = inf
    refused: str = ""

    def __str__(self) -> str:
        if self.refused:
            return f"{self.name:<28} not offered: {self.refused}"
        return f"{self.name:<28} {self.rmse:>12.4g} if there are as many events as expected"


@dataclass(frozen=True)
class Offers:
    """The usual choice, and the sparse counters beside it; print it for a table."""

    usual: Mechanism[Any]
    rmse: float
    offers: tuple[Offer, ...]

    @property
    def best(self) -> Claim[Any, Any]:
        made = [(offer.rmse, offer.claim) for offer in self.offers if offer.claim and not offer.refused]
        return min(made, key=lambda pair: pair[0])[1] if made else self.usual

    def __str__(self) -> str:
        usual = f"{type(self.usual).__name__:<28} {self.rmse:>12.4g} whatever the data"
        return "\n".join([usual, *map(str, self.offers)])


def choose(loss: Loss, *, expected: Number | None = None, **asked: Any) -> Claim[Any, Any]:
    """`continual.choose`, or a sparse counter if the declared density says that it is less wrong.

    Takes what `compare` takes.

    >>> from streamgauge import Pure
    >>> type(choose(Pure(1), horizon=2**14)).__name__
    'SubtractiveTree'
    >>> type(choose(Pure(1), horizon=2**14, expected="1/200")).__name__
    'SparseCounter'
    """
    return compare(loss, expected=expected, **asked).best


def compare(
    loss: Loss,
    *,
    horizon: int | None = None,
    window: str = "running",
    expected: Number | None = None,
    pan_private: bool = False,
    bound: Bound = 1,
    unit: Unit = Event(),
    memory: int | None = None,
) -> Offers:
    """The lines behind `choose`: predicted errors, and why sparse counters are not offered."""
    asked = continual.Asked(bound, unit, pan_private)
    usual = continual.choose(loss, horizon=horizon, window=window, memory=memory, **vars(asked))
    least, density = usual.rmse(horizon or AHEAD), declared(expected)
    if density is None or window != "running":
        rule = "window must be running" if density else "expected must be declared"
        reason = f"{rule}, got {window if density else None}"
        return Offers(usual, least, tuple(Offer(maker.__name__, refused=reason) for maker in SPARSE))
    *_, pure = continual.ways_to_keep(loss)
    wish = Wish(pure, asked, horizon, float(density * (horizon or AHEAD)))
    most = continual.MEMORY if memory is None else memory
    return Offers(usual, least, tuple(_offer(maker, wish, least, most) for maker in SPARSE))


def declared(expected: Number | None) -> Fraction | None:
    """The events of one group in one tick, if the curator has declared them."""
    if expected is None:
        return None
    density = rational("expected", expected)
    if density <= 0:
        raise ValueError(f"expected must be above 0 events a tick, got {expected}")
    return density


@dataclass(frozen=True)
class Wish:
    """What a sparse counter is to keep, and how many events it is to count."""

    loss: Loss
    asked: continual.Asked
    horizon: int | None
    events: float

    @property
    def ticks(self) -> int:
        return self.horizon or AHEAD

    def made(self, maker: type[Claim[Any, Any]], **settings: Any) -> Any:
        claim: Any = maker
        kept = {name: value for name, value in vars(self.asked).items() if name != "open_ticks"}
        return claim(self.loss, horizon=self.horizon, **kept, **settings)


Judged = tuple[float, Claim[Any, Any]]  # what it is predicted to be off by


def _sparse(wish: Wish) -> Judged:
    """The one of least predicted error among those tried."""
    tried = (wish.made(SparseCounter, split=split, signed=False) for split in SPLITS)
    return min((_fitted(wish, each) for each in tried), key=lambda judged: judged[0])


def _fitted(wish: Wish, claim: SparseCounter) -> Judged:
    segments = sparse_error(claim, wish.ticks, wish.events).segments
    fitted = replace(claim, segments=max(1, ceil(segments)))
    return sparse_error(fitted, wish.ticks, wish.events).rmse, fitted


def _cascading(wish: Wish) -> Judged:
    if not wish.asked.pan_private:
        raise ValueError("pan_private must be True, else SparseCounter does better, got False")
    claim = wish.made(CascadingBuffers)
    return cascade_error(claim, wish.ticks, wish.events), claim


SPARSE: dict[type[Claim[Any, Any]], Callable[[Wish], Judged]] = {
    SparseCounter: _sparse,
    CascadingBuffers: _cascading,
}


def _offer(maker: type[Claim[Any, Any]], wish: Wish, least: float, memory: int) -> Offer:
    name = maker.__name__
    try:
        rmse, claim = SPARSE[maker](wish)
    except ValueError as refusal:
        return Offer(name, refused=str(refusal))
    if claim.memory() > memory:
        needs = claim.memory()
        return Offer(name, refused=f"memory must be at least {needs} numbers a group, got {memory}")
    most = least * (CLEARLY if wish.asked.pan_private else 1)
    if rmse >= most:
        return Offer(name, claim, rmse, f"predicted error must be below {most:.4g}, got {rmse:.4g}")
    return Offer(name, claim, rmse)
