"""p-stable sketches: L_p norms and distinct counts with deletions. A private release carries no information.

    X(i, j) = sin(p t)/cos(t)^(1/p) (cos((1 - p) t)/r)^((1 - p)/p)    t uniform in (-pi/2, pi/2), r exponential
    row j: sum over items of X(i, j) weight                           distributed as |a|_p X
    |a|_p is about (median of |rows|)/(median of |X|)                 distinct items: |a|_p^p for a small p

t and r are a keyed hash of item and row.

Privacy
    Without `release` nothing is private: rows are exact memory, in floats.
    Neighbours of `release`: one event of weight up to Z, over a declared domain of m items. Row j moves by at most
    Z max_i |X(i, j)| (twice if replaced). The release is a one-time, experimental one: X is rounded to whole numbers
    of a grid, exactly summed, and each of r rows gets noise of epsilon/r.

Error
    max_i |X(i, j)| is about m^(1/p), and the noise of a row r m^(1/p)/epsilon, while the norm of D items is D^(1/p).
    So the noise alone decides the estimate. At m = 5000, 101 rows, epsilon 1, it is the same for 50, 500 and 5000
    items: see docs/sketches.md. `release` refuses for that reason unless `experimental=True`. Use `FlipMerge` or
    `streamgauge.statistics.Distinct`.

Reference
    Indyk: Stable distributions, pseudorandom generators, embeddings and data stream computation, 2006; Cormode,
    Datar, Indyk, Muthukrishnan: Comparing data streams using Hamming norms, 2002; Mir, Muthukrishnan, Nikolov, Wright,
    2011. The survey prints 1/2 + theta for the angle, and says that p <= 1 describes the stability of a mean. There is
    no mean.
"""

from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import cached_property
from math import pi, sqrt

import numpy as np
import numpy.typing as npt

from streamgauge.continual.validation import check_whole
from streamgauge.noise import Ints, Noise, SecureNoise
from streamgauge.noise.coerce import Floats
from streamgauge.privacy import Pure
from streamgauge.sketches.item_hash import ItemHash, Items, check_key, create_key, list_parsed, parse_weights

UNIT = 2.0**-53
GRID_LEVELS = 2**30  # whole numbers up to the largest entry of a row
MEDIAN_DRAWS = 20001
MAX_DOMAIN, MAX_WEIGHT = 2**20, 2**20
WORDS_PER_BLOCK = 2


class ExperimentalReleaseError(ValueError):
    """A release whose noise hides everything; the message has the numbers."""


def stable_values(angle: Floats, exponential: Floats, p: float) -> Floats:
    """Return p-stable values from an angle in (-pi/2, pi/2) and an exponential value.

    >>> float(stable_values(np.array([0.5]), np.array([1.0]), 1.0)[0]) == float(np.tan(0.5))
    True
    """
    with np.errstate(over="ignore"):
        first = np.sin(p * angle) / np.cos(angle) ** (1 / p)
        return np.asarray(first * (np.cos((1 - p) * angle) / exponential) ** ((1 - p) / p))


@dataclass(frozen=True)
class PStable:
    """Settings of a p-stable sketch.

    >>> sketch = PStable(p=0.25, rows=401).start(bytes(32))
    >>> sketch.update(range(1000))
    >>> 800 < sketch.distinct() < 1200
    True
    """

    _: KW_ONLY
    p: float = 0.25
    rows: int = 101

    def __post_init__(self) -> None:
        if not 0.05 <= self.p <= 2:
            raise ValueError(f"p must be between 0.05 and 2, got {self.p}")
        check_whole("rows", self.rows)

    @cached_property
    def median(self) -> float:
        """The median of |X|, by quadrature of the two uniform values."""
        side = round(sqrt(MEDIAN_DRAWS))
        points = (np.arange(side) + 0.5) / side
        angle, exponential = np.meshgrid(pi * (points - 0.5), -np.log1p(-points))
        return float(np.median(np.abs(stable_values(angle, exponential, self.p))))

    def start(self, key: bytes | None = None) -> "PStableSketch":
        return PStableSketch(self, check_key(key) if key is not None else create_key())


class PStableSketch:
    """A p-stable sketch at work. Its memory is exact."""

    def __init__(self, claim: PStable, key: bytes) -> None:
        self.claim = claim
        self.hash = ItemHash(key)
        self.totals = np.zeros(claim.rows)  # exact but for rounding

    def columns(self, items: Items) -> Floats:
        """Return X of items, one row for each row of the sketch."""
        words = self.hash.bits(self.hash.names(items), self.claim.rows)
        uniforms = ((words >> np.uint64(11)).astype(np.float64) + 0.5) * UNIT
        angles, tails = uniforms[:, 0::WORDS_PER_BLOCK], uniforms[:, 1::WORDS_PER_BLOCK]
        return stable_values(pi * (angles - 0.5), -np.log(tails), self.claim.p).T

    def update(self, items: Items, weights: npt.ArrayLike | None = None) -> None:
        """Add items, each with a weight (default 1), which may be negative."""
        columns = self.columns(items)
        heavy = parse_weights(weights, MAX_WEIGHT, columns.shape[1])
        self.totals += columns.sum(axis=1) if heavy is None else columns @ heavy

    def norm(self) -> float:
        """Return the estimated L_p norm of the totals of items."""
        return float(np.median(np.abs(self.totals))) / self.claim.median

    def distinct(self) -> float:
        """Return the estimated number of items whose total is not 0, for a small p and small totals."""
        return float(self.norm() ** self.claim.p)

    def sensitivity(self, domain: int, bound: int = 1, *, replace: bool = False) -> Floats:
        """Return how far one event over items 0 to domain - 1 moves each row."""
        check_whole("domain", domain)
        if domain > MAX_DOMAIN:
            raise ValueError(f"domain must be at most 2**20, got {domain}")
        largest = np.zeros(self.claim.rows)
        for start in range(0, domain, 2**12):
            part = np.arange(start, min(domain, start + 2**12))
            largest = np.maximum(largest, np.abs(self.columns(part)).max(axis=1))
        return largest * bound * (2 if replace else 1)


def release_stable(
    claim: PStable,
    items: Items,
    loss: Pure,
    *,
    domain: int,
    key: bytes | None = None,
    noise: Noise | None = None,
    experimental: bool = False,
) -> float:
    """Return a private distinct count of items below `domain` from a p-stable sketch: mostly noise.

    Raises:
        ExperimentalReleaseError: unless `experimental` is True, since the release tells nothing of the data.
    """
    sketch = claim.start(key)
    largest = sketch.sensitivity(domain)
    if not experimental:
        typical = claim.rows * float(np.median(largest)) / float(loss.epsilon)
        signal = claim.median * domain ** (1 / claim.p)
        raise ExperimentalReleaseError(
            f"experimental must be True for a release of p-stable rows: noise of about {typical:.2g} a row, "
            f"while all {domain} items together reach {signal:.2g}; use FlipMerge or Distinct"
        )
    whole = quantize_rows(sketch, items, largest, domain)
    scale = Fraction(GRID_LEVELS * claim.rows) / loss.epsilon
    source = noise if noise is not None else SecureNoise()
    noisy = (whole + source.laplace(scale, claim.rows)).astype(np.float64) * (largest / GRID_LEVELS)
    return float((np.median(np.abs(noisy)) / claim.median) ** claim.p)


def quantize_rows(sketch: PStableSketch, items: Items, largest: Floats, domain: int) -> Ints:
    """Return the rows as exact sums of whole numbers of at most GRID_LEVELS an item; others are dropped."""
    inside = np.array([item for item in list_parsed(items) if isinstance(item, int) and 0 <= item < domain], np.int64)
    entries = np.trunc(sketch.columns(inside) / largest[:, None] * GRID_LEVELS)
    return np.asarray(np.clip(entries, -GRID_LEVELS, GRID_LEVELS).astype(np.int64).sum(axis=1))
