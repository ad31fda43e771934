"""Ticks that are committed together: exact sums in, one commit out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streamgauge.plan.measure import Measure, Pass, Tally
from streamgauge.releases.release import TickRelease
from streamgauge.runtime.options import Progress
from streamgauge.runtime.release_run import ReleaseRun

if TYPE_CHECKING:
    from streamgauge.runtime.session import RunSession


@dataclass
class Batches:
    """The runs of some releases, and the scan that all of them need."""

    session: "RunSession"
    runs: Sequence[ReleaseRun]
    events: int = 0
    dropped: dict[str, int] = field(default_factory=dict)

    @property
    def measures(self) -> dict[str, Measure]:
        """All measures for the engine, by a name that does not depend on other releases."""
        return {f"{run.name}/{place}": measure for run in self.runs for place, measure in enumerate(run.scan.measures)}

    @property
    def places(self) -> int:
        """Places of the vectors of one tick, over all parts."""
        return sum(part.value_count for run in self.runs for part in run.plan.parts)

    @property
    def max_commit_ticks(self) -> int:
        """Largest number of ticks in one commit."""
        options = self.session.options
        return max(1, min(options.max_batch_ticks, options.max_batch_places // max(1, self.places)))

    def split_ticks(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Yield the ticks from `first` to `last` in pieces that are committed at once."""
        size = self.max_commit_ticks
        for begin in range(first, last + 1, size):
            yield begin, min(last, begin + size - 1)

    def report_backlog(self, tick: int, due: int) -> int | None:
        """Report a backlog to the curator.

        Returns:
            The due tick if it needs more than one commit, otherwise None.
        """
        if due - tick <= self.max_commit_ticks:
            return None
        self.report_progress(tick, due)
        return due

    def release_ticks(self, answers: Sequence[Tally], first: int, last: int) -> list[TickRelease]:
        """Release the ticks from `first` to `last` of every release."""
        released: list[TickRelease] = []
        place = 0
        for run in self.runs:
            mine = answers[place : place + len(run.scan.measures)]
            place += len(mine)
            count = count_release_ticks(run, first, last)
            if count > 0:
                released += run.release_ticks(mine, count)
        return released

    def save_state(self) -> dict[str, bytes | None]:
        return {name: part for run in self.runs for name, part in run.save_state().items()}

    def report_progress(self, tick: int, due: int | None = None) -> None:
        """Report the progress to the curator, with the last tick of a backlog."""
        stream = self.session.file.stream
        told = Progress(tick, stream.ticks, self.events, dict(self.dropped), not stream.pan_private, due)
        self.session.options.on_progress(told)

    def add_counts(self, answer: Pass) -> None:
        """Add the counts of the engine, for the curator."""
        if self.session.options.shares is not None:
            self.session.options.shares.add(answer)
        for rule, number in answer.counts.items():
            if rule == "records":
                self.events += number
            else:
                self.dropped[rule] = self.dropped.get(rule, 0) + number


def count_release_ticks(run: ReleaseRun, first: int, last: int) -> int:
    """Return how many of these ticks a release has: from its next one to its last."""
    end = last if run.last_tick is None else min(last, run.last_tick)
    if run.next_tick < min(first, end + 1):
        raise ValueError(f"ticks must follow each other, got {first} where {run.next_tick} is next")
    return end - run.next_tick + 1
