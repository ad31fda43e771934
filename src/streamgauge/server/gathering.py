"""When turns begin, and when readers hear of what is done in them: by the clock and the moment of asking.

    asked   asked      turn begins         heard of
    --x-------x-----------|-------------------|-----   multiples of `every` since the stream's start

Privacy
    To take a release in, the run is set down, which takes as long as the data makes it take. So all who ask
    between two multiples share a turn, which begins at the later one; its replies and acts are heard of a
    whole delay after that at the earliest, whatever moment was chosen to ask. Proof: who shares a turn, when
    it is heard of and which ticks it covers are functions of moments of asking, unless it takes longer than
    the delay; what does is seen as a later multiple.
"""

from dataclasses import dataclass
from typing import Self

from streamgauge.pipeline.clock import SECOND
from streamgauge.query.settings import PipelineFile
from streamgauge.server import turns
from streamgauge.server.departures import Departures


@dataclass(frozen=True)
class Gathering:
    """Of one file. Times are microseconds."""

    departures: Departures

    @classmethod
    def of(cls, file: PipelineFile) -> Self:
        return cls(Departures(file.stream.start, file.server.publish_delay))

    def begins(self, asked: int) -> int:
        """When the turn begins of who asks at a moment: the next multiple of the delay that is a whole while
        (`turns.PACE`) after the one before."""
        start, every = self.departures.start, self.departures.every
        cell = -int(-turns.PACE * SECOND // every) * every
        return start - (start - asked) // cell * cell if cell else asked

    def heard(self, asked: int) -> int:
        """When readers, and who asked, hear of it at the earliest."""
        return self.departures.moment(self.begins(asked) + self.departures.every)
