"""Reference of the bounds on users of a live source: one event after another, in dictionaries."""

from collections.abc import Sequence

from streamgauge.privacy import Tick, User

Event = tuple[int, int, int]  # two words of a user's hash, and a tick


class BoundsByHand:
    """Bounds of users in dictionaries."""

    def __init__(self, unit: User | Tick) -> None:
        self.unit = unit
        self.used_ticks: dict[tuple[int, int, int], int] = {}  # by user and block
        self.open_events: dict[Event, int] = {}

    def admit_events(self, events: Sequence[Event]) -> list[bool]:
        """Return whether each event is admitted."""
        return [self._admit(event) for event in events]

    def _admit(self, event: Event) -> bool:
        high, low, tick = event
        owner = high, low, 0 if self.unit.block_ticks is None else (tick - 1) // self.unit.block_ticks
        before = self.open_events.get(event, 0)
        if before >= self.unit.events:
            return False
        if not before and self.used_ticks.get(owner, 0) >= self.unit.ticks_per_block:
            return False
        self.open_events[event] = before + 1
        self.used_ticks[owner] = self.used_ticks.get(owner, 0) + (not before)
        return True

    def forget(self, tick: int) -> None:
        """Forget the events up to a closed tick, and blocks that end by it."""
        self.open_events = {event: count for event, count in self.open_events.items() if event[2] > tick}
        if self.unit.block_ticks is not None:
            current = tick // self.unit.block_ticks
            self.used_ticks = {owner: used for owner, used in self.used_ticks.items() if owner[2] >= current}
