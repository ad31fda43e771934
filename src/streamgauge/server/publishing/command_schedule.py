"""Start and reply times of command batches, by the clock and the time of the request.

    request   request      batch begins        visible
    --x-------x---------------|-------------------|-----   multiples of `interval` since the stream's start

**Privacy.** To add a release, the run stops, and the duration of that depends on data. So all commands between
two multiples share a batch, which begins at the later one. Replies and ledger entries become visible at least a
whole delay after that, for any time of the request.

Proof: the members of a batch, its reply time and its ticks are functions of request times, unless it takes
longer than the delay. A longer one becomes visible at a later multiple.
"""

from dataclasses import dataclass
from typing import Self

from streamgauge.clock import MICROSECONDS_PER_SECOND
from streamgauge.config.settings import PipelineFile
from streamgauge.server.publishing.clock import PublishSchedule
from streamgauge.server.tuning import DEFAULT_TUNING, Tuning


@dataclass(frozen=True)
class CommandSchedule:
    """Start and reply times of command batches. Times are microseconds."""

    publish_schedule: PublishSchedule
    tuning: Tuning = DEFAULT_TUNING

    @classmethod
    def from_file(cls, file: PipelineFile, tuning: Tuning = DEFAULT_TUNING) -> Self:
        return cls(PublishSchedule(file.stream.start, file.server.publish_delay), tuning)

    def find_start_time(self, requested_at: int) -> int:
        """Return the start of the batch of a command: the next multiple of the delay.

        Batches are at least `batch_interval_seconds` apart.
        """
        start, every = self.publish_schedule.start, self.publish_schedule.interval
        cell = -int(-self.tuning.batch_interval_seconds * MICROSECONDS_PER_SECOND // every) * every
        return start - (start - requested_at) // cell * cell if cell else requested_at

    def find_reply_time(self, requested_at: int) -> int:
        """Return the earliest time at which readers and the client see the result."""
        return self.publish_schedule.find_publish_time(
            self.find_start_time(requested_at) + self.publish_schedule.interval
        )
