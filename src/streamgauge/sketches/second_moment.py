"""Second moment F2, the sum of squared totals, by the sketch of Alon, Matias and Szegedy. Not private.

    row j: sum over items of s_j(x) weight        s_j: 4-wise independent signs
    estimate: the mean of squared rows

A row's square has mean F2 and variance at most 2 F2^2, which needs 4-wise independence. So the mean of r rows errs by
at most sqrt(2/r) F2 in standard deviations. That holds for streams that do not depend on its answers. One that does
brings it down in some hundred steps: see `streamgauge.robust`.

Reference: Alon, Matias, Szegedy: The space complexity of approximating the frequency moments, 1999.
"""

from math import sqrt

import numpy as np
import numpy.typing as npt

from streamgauge.sketches.item_hash import ItemHash, Items, check_key, create_key, parse_weights
from streamgauge.sketches.polynomial_hash import PolynomialHash

MAX_WEIGHT = 2**31


class SecondMoment:
    """Estimate of F2 from `rows` sums. It is exact memory, so it protects no one.

    >>> sketch = SecondMoment(rows=64, key=bytes(32))
    >>> sketch.update_many(["tea"] * 10)
    >>> sketch.estimate()
    100.0
    """

    def __init__(self, rows: int, key: bytes | None = None) -> None:
        made = check_key(key) if key is not None else create_key()
        self._items = ItemHash(made)
        self._signs = PolynomialHash.derive(made, independence=4, rows=rows, buckets=2)
        self.rows = rows
        self.sums = np.zeros(rows, np.int64)  # exact: signed sums of weights

    def update(self, item: int | str, weight: int = 1) -> None:
        """Add one item."""
        self.update_many([item], [weight])

    def update_many(self, items: Items, weights: npt.ArrayLike | None = None) -> None:
        """Add items, each with a weight (default 1)."""
        signs = self._signs.signs(self._items.words(items))
        heavy = parse_weights(weights, MAX_WEIGHT, signs.shape[1])
        self.sums += signs.sum(axis=1) if heavy is None else signs @ heavy

    def estimate(self) -> float:
        """Return the estimated sum of squared totals."""
        return float((self.sums.astype(np.float64) ** 2).mean())

    @property
    def relative_stddev(self) -> float:
        """Bound on the relative standard error, for streams that do not depend on the answers."""
        return sqrt(2 / self.rows)
