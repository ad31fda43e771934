"""Ticks that are taken together: exact sums of several ticks in, one commit out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streamgauge.engines.passes import Pass
from streamgauge.pipeline.options import Progress
from streamgauge.pipeline.release_run import ReleaseRun
from streamgauge.pipeline.room import places_of
from streamgauge.query.measure import Measure, Tally
from streamgauge.query.released import Released

if TYPE_CHECKING:
    from streamgauge.pipeline.opening import Opened


@dataclass
class Batches:
    """The runs of some releases, and the scan that all of them need."""

    opened: "Opened"
    runs: Sequence[ReleaseRun]
    events: int = 0
    dropped: dict[str, int] = field(default_factory=dict)

    @property
    def measures(self) -> dict[str, Measure]:
        """All that the engine is asked for, by a name that stays when other releases come and go."""
        return {
            f"{run.name}/{place}": measure
            for run in self.runs
            for place, measure in enumerate(run.scan.measures)
        }

    @property
    def places(self) -> int:
        """Places of the vectors of one tick, all parts together."""
        return places_of(part for run in self.runs for part in run.planned.parts)

    @property
    def at_once(self) -> int:
        """Ticks that one commit has at most."""
        options = self.opened.options
        return max(1, min(options.ticks, options.batch // max(1, self.places)))

    def cut(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """The ticks from `first` to `last` in pieces that are committed at once."""
        size = self.at_once
        for begin in range(first, last + 1, size):
            yield begin, min(last, begin + size - 1)

    def behind(self, tick: int, due: int) -> int | None:
        """The tick that is due, where that is further than one commit away: the curator is told so."""
        if due - tick <= self.at_once:
            return None
        self.seen(tick, due)
        return due

    def take(self, answers: Sequence[Tally], first: int, last: int) -> list[Released]:
        """Lets every release take its ticks of these."""
        released: list[Released] = []
        place = 0
        for run in self.runs:
            mine = answers[place : place + len(run.scan.measures)]
            place += len(mine)
            count = ticks_of(run, first, last)
            if count > 0:
                released += run.take(mine, count)
        return released

    def saved(self) -> dict[str, bytes | None]:
        return {name: part for run in self.runs for name, part in run.saved().items()}

    def seen(self, tick: int, due: int | None = None) -> None:
        """Tells the curator how far it is, and up to where it has to catch up."""
        stream = self.opened.file.stream
        told = Progress(tick, stream.ticks, self.events, dict(self.dropped), not stream.pan_private, due)
        self.opened.options.seen(told)

    def counted(self, answer: Pass) -> None:
        """Adds up what the engine counted, for the curator."""
        if self.opened.options.shares is not None:
            self.opened.options.shares.add(answer)
        for rule, number in answer.counts.items():
            if rule == "records":
                self.events += number
            else:
                self.dropped[rule] = self.dropped.get(rule, 0) + number


def ticks_of(run: ReleaseRun, first: int, last: int) -> int:
    """How many of these ticks a release takes: from its next one to its last; none once it is over."""
    end = last if run.last_tick is None else min(last, run.last_tick)
    if run.next_tick < min(first, end + 1):
        raise ValueError(f"ticks must follow each other, got {first} where {run.next_tick} is next")
    return end - run.next_tick + 1
