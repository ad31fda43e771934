"""Count-Min, as the survey's sources have it, with noise. `CountSketch` is better: see Error.

    rows x columns cells      cell (i, h_i(x)) += weight in each row; rows = ceil(ln(1/beta)), columns = ceil(e/alpha)
    estimate of x             the least of its cells
    noise                     at the start too, if `pan_private`; at the one release always

Privacy
    Neighbours: streams that differ in one event, whose weight is clipped to [-bound, bound].
    Promise: `loss` for the release, and with `pan_private=True` for one unannounced look at the cells and the release.
    Proof: an event moves one cell of each row by at most `bound` = Z, so L1 is D Z with D rows (2 D Z if replaced).
    Noise of each draw is calibrated to that. An event before the look is hidden by the first draws, in both views. An
    event after it is hidden by the last draws. A plain Count-Min cannot be pan-private: its cells rest exact, so a look
    at an item's cells shows whether anybody had it. tests/sketches has that attack.
    Not covered: a look at a run that is lost, if an older save of it is loaded. Both have the same first draws, so an
    event of the lost part loses up to twice `loss`: its move of the look is hidden by the first draws, which then move
    the release too. Load the newest save only, or begin again.

Error
    Without noise the estimate is never too low, and too high by at most alpha F1 with probability 1 - beta. With noise
    the least of D cells is biased by `noise_bias`, and collisions by the other sign: the sum depends on data, and no
    interval is known. `median` has no such bias by noise, but that by collisions. `CountSketch` has neither.

Reference
    Cormode: Count-Min sketch (encyclopedia entry); Mir, Muthukrishnan, Nikolov, Wright: Pan-private algorithms via
    statistics on sketches, 2011. Theirs draws once, at the start. A release of the very cells that a look saw shows
    exactly what came after it, so here the release draws again.
"""

from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from math import ceil, e, log

import numpy as np
import numpy.typing as npt

from streamgauge.continual.run import ExclusiveState, LimitExceededError, wipe_state
from streamgauge.continual.state_io import SavedBytes, pack, unpack
from streamgauge.continual.validation import check_whole
from streamgauge.noise import DiscreteLaplace, EphemeralNoise, Ints, Noise, SecureNoise
from streamgauge.noise.entropy import KEY_BYTES, Bytes
from streamgauge.privacy import Event, Pure, Sensitivity
from streamgauge.sketches.item_hash import ItemHash, Items, check_key, create_key, parse_weights
from streamgauge.sketches.polynomial_hash import PolynomialHash

MAX_ROWS, MAX_COLUMNS = 64, 2**22


@dataclass(frozen=True)
class CountMinRelease:
    """Noisy cells; any item can be read."""

    cells: Ints = field(repr=False)
    items: ItemHash = field(repr=False)
    rows: PolynomialHash = field(repr=False)
    noise: DiscreteLaplace
    draws: int  # of noise in a cell

    @property
    def noise_bias(self) -> float:
        """The expected least of the noise of an item's cells, which is negative."""
        return expect_minimum(self.noise, len(self.cells), self.draws)

    def estimate(self, items: Items) -> Ints:
        """Return the least cell of each item: the survey's estimate, biased by `noise_bias` and collisions."""
        return np.asarray(self._read(items).min(axis=0))

    def median(self, items: Items) -> npt.NDArray[np.float64]:
        """Return the median cell of each item."""
        return np.asarray(np.median(self._read(items), axis=0))

    def _read(self, items: Items) -> Ints:
        columns = self.rows.columns(self.items.words(items))
        return np.asarray(self.cells[np.arange(len(self.cells))[:, None], columns])


def expect_minimum(noise: DiscreteLaplace, cells: int, draws: int = 1) -> float:
    """Return the expected least of so many cells with so many draws each.

    >>> from fractions import Fraction
    >>> round(expect_minimum(DiscreteLaplace(Fraction(5)), 5), 2)
    -7.92
    """
    far = 1
    while noise.tail(far) > 1e-18:
        far *= 2
    law = np.array([noise.pmf(k) for k in range(-far, far + 1)])
    total = law
    for _ in range(draws - 1):
        total = np.convolve(total, law)
    at_least = np.cumsum(total[::-1])[::-1] ** cells  # P(all cells >= k)
    chances = at_least - np.append(at_least[1:], 0.0)
    numbers = np.arange(len(total)) - (len(total) - 1) // 2
    return float((chances * numbers).sum())


@dataclass(frozen=True)
class CountMin:
    """One release of Count-Min cells. Use `CountSketch` instead, unless you compare.

    >>> import streamgauge as sg
    >>> claim = sg.sketches.CountMin.from_error(sg.Pure(1), alpha=0.01, beta=0.01)
    >>> claim.rows, claim.columns
    (5, 272)
    """

    loss: Pure
    _: KW_ONLY
    rows: int = 5
    columns: int = 8192
    bound: int = 1
    pan_private: bool = False
    unit: Event = Event()

    def __post_init__(self) -> None:
        if not isinstance(self.loss, Pure) or self.loss.epsilon <= 0:
            raise ValueError(f"loss must be Pure and above 0, got {self.loss!r}")
        for name, value, most in (("rows", self.rows, MAX_ROWS), ("columns", self.columns, MAX_COLUMNS)):
            check_whole(name, value)
            if value > most:
                raise ValueError(f"{name} must be at most {most}, got {value}")
        check_whole("bound", self.bound)
        if not isinstance(self.unit, Event) or self.unit.moves:
            raise ValueError(f"unit must be an Event that does not move, got {self.unit!r}")

    @classmethod
    def from_error(cls, loss: Pure, *, alpha: float, beta: float, pan_private: bool = False) -> "CountMin":
        """Return the sketch whose noiseless error is at most alpha F1 with probability 1 - beta."""
        if not (0 < alpha < 1 and 0 < beta < 1):
            raise ValueError(f"alpha and beta must be between 0 and 1, got {alpha} and {beta}")
        return cls(loss, rows=ceil(log(1 / beta)), columns=ceil(e / alpha), pan_private=pan_private)

    @cached_property
    def sensitivity(self) -> Sensitivity:
        one = Sensitivity(self.rows * self.bound, self.rows * self.bound**2, self.rows)
        return one.scale(2 if self.unit.replace else 1)

    @cached_property
    def distribution(self) -> DiscreteLaplace:
        """The noise of one draw."""
        return DiscreteLaplace(self.sensitivity.l1 / self.loss.epsilon)

    @property
    def draws(self) -> int:
        """Draws of noise in a released cell."""
        return 2 if self.pan_private else 1

    def start(self, key: bytes | None = None, noise: Noise | None = None) -> "CountMinRun":
        made = check_key(key) if key is not None else create_key()
        source = self._build_source(noise)
        cells = np.zeros((self.rows, self.columns), np.int64)
        if self.pan_private:
            cells += self.distribution.draw(source, cells.size).reshape(cells.shape)
        return CountMinRun(self, CellState(0, np.frombuffer(made, np.uint8).copy(), cells), source)

    def load(self, saved: SavedBytes, noise: Noise | None = None) -> "CountMinRun":
        """Load a run that `CountMinRun.save` wrote: the newest save, of a run that took no items since."""

        def blank(width: int) -> CellState:
            return CellState(0, np.zeros(KEY_BYTES, np.uint8), np.zeros((self.rows, self.columns), np.int64))

        _, _, state = unpack(saved, repr(self), blank)
        return CountMinRun(self, state, self._build_source(noise))

    def _build_source(self, noise: Noise | None) -> Noise:
        if isinstance(noise, SecureNoise) and self.pan_private:
            raise ValueError("noise must keep no key in a pan-private run, got SecureNoise")
        if noise is not None:
            return noise
        return EphemeralNoise() if self.pan_private else SecureNoise()


@dataclass
class CellState:
    """Cells and the key of their hashes."""

    releases: int
    key: Bytes  # public
    cells: Ints  # noisy if pan-private, else exact


def check_unreleased(state: CellState) -> None:
    if state.releases:
        raise LimitExceededError("releases must be at most 1, got 1 more", "releases_exhausted")


class CountMinRun(ExclusiveState[CellState]):
    """Count-Min at work: items in, one release out."""

    def __init__(self, claim: CountMin, state: CellState, source: Noise) -> None:
        super().__init__(state)
        self.claim = claim
        self.source = source
        self.key = state.key.tobytes()
        self._items = ItemHash(self.key)
        self._rows = PolynomialHash.derive(self.key, independence=2, rows=claim.rows, buckets=claim.columns)

    def update(self, items: Items, weights: npt.ArrayLike | None = None) -> None:
        """Add items, each with a weight (default 1) that is clipped to the bound.

        After the release the cells have no noise left, so further items are refused.
        """
        columns = self._rows.columns(self._items.words(items))
        heavy = parse_weights(weights, self.claim.bound, columns.shape[1])
        with self._exclusive(check_unreleased) as state:
            for cells, places in zip(state.cells, columns, strict=True):
                np.add.at(cells, places, 1 if heavy is None else heavy)

    def release(self) -> CountMinRelease:
        """Return the cells with noise, once, and overwrite those in memory."""
        law = self.claim.distribution
        with self._exclusive(check_unreleased) as state:
            cells = state.cells + law.draw(self.source, state.cells.size).reshape(state.cells.shape)
            wipe_state(state.cells)
            state.releases = 1
        return CountMinRelease(cells, self._items, self._rows, law, self.claim.draws)

    def save(self) -> bytes:
        """Return the state of the run: a second copy of its memory."""
        with self._locked() as state:
            return pack(repr(self.claim), 1, {}, state)

    def __repr__(self) -> str:
        return f"<run of {self.claim!r}>"
