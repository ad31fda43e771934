"""Updates of the wrapped sketches, which refuse deletions."""

from collections.abc import Sequence

from streamgauge.robust.game import Estimator
from streamgauge.sketches.item_hash import Item


class AdaptiveDeletionError(ValueError):
    """A deletion under adaptive input, against which no small sketch holds."""


def feed_copies(copies: Sequence[Estimator], item: Item, weight: int) -> None:
    """Add an item to all copies; reject deletions, whatever the item."""
    if weight < 0:
        raise AdaptiveDeletionError(
            "weight must be at least 0 under adaptive input: with deletions the answer can change without end, and "
            "linear sketches fall to as many queries as they have rows; use exact counters, got a deletion"
        )
    for copy in copies:
        copy.update(item, weight)


def is_near(value: float, centre: float, factor: float) -> bool:
    """Return whether two numbers of at least 0 are within a factor of each other."""
    return centre / factor <= value <= centre * factor
