"""Adjusted numbers of a release: what `consistent = true` publishes instead of the raw ones.

State
    The last published numbers of measures that never fall. They are released numbers only, and are committed with
    their ticks.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from streamgauge.postprocess.adjustment import Adjustment


class ReleaseAdjuster:
    """Adjustments of the measures of one release."""

    def __init__(self, release: str, adjustments: Sequence[Adjustment | None], places: int) -> None:
        self.part_name = f"run/{release}/consistent"
        self.adjustments = {index: each for index, each in enumerate(adjustments) if each is not None}
        self.previous = {index: np.zeros(places) for index, each in self.adjustments.items() if each.never_falls}

    def load(self, state: Mapping[str, bytes]) -> None:
        """Restore the state after the last committed tick."""
        if self.previous:
            rows = np.frombuffer(state[self.part_name], "<f8").reshape(len(self.previous), -1)
            self.previous = dict(zip(self.previous, rows.astype(np.float64), strict=True))

    def save_state(self) -> dict[str, bytes]:
        """Return the state, which is made of released numbers only."""
        rows = [row.astype("<f8").tobytes() for row in self.previous.values()]
        return {self.part_name: b"".join(rows)} if rows else {}

    def adjust(self, fields: Mapping[str, Any]) -> None:
        """Adjust the next ticks, in arrays of (ticks, measures, places)."""
        for index, adjustment in self.adjustments.items():
            for row in range(len(fields["value"])):
                value, stddev, low, high = (fields[name][row, index] for name in ("value", "stddev", "low", "high"))
                found = adjustment.adjust(value, stddev, low, high, self.previous.get(index))
                for name in ("value", "low", "high"):
                    fields[name][row, index] = getattr(found, name)
                if index in self.previous:
                    self.previous[index] = found.value
