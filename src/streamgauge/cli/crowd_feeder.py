"""The crowd of the poll: made-up devices that report as real ones do, over HTTP, without a token.

Each device privatises its own favourite. Some hundred reports share a message, so that a crowd fits on one
machine; all of a tick's are sent well inside of it, so that it is known in which one they arrived.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import numpy as np

from streamgauge.cli.emoji_crowd import CROWD, EMOJI, Places, favourites
from streamgauge.cli.feeding import Feeding
from streamgauge.cli.live_feeder import posted
from streamgauge.localdp import HadamardCountMeanSketch
from streamgauge.localdp.wire import message
from streamgauge.pipeline.clock import SECOND
from streamgauge.query.settings import Stream
from streamgauge.server.report_records import BINARY

ITEMS = tuple(EMOJI)
WITHIN = 0.2  # of a tick: when its reports are sent
TOGETHER = 500  # reports of a message, and the most of the poll's file


class CrowdFeeder(Feeding):
    """Who listens to `sent` hears what came, and in which tick."""

    def __init__(
        self,
        address: str,
        stream: Stream,
        claim: HadamardCountMeanSketch,
        sent: Callable[[int, Places], None],
    ) -> None:
        super().__init__("crowd")
        self.host, self.stream, self.claim, self.sent = urlsplit(address).netloc, stream, claim, sent

    def _work(self) -> None:
        tick, last = 1, self.stream.ticks
        with ThreadPoolExecutor(CROWD // TOGETHER) as pool:
            while (last is None or tick <= last) and not self._stop.wait(self._until(tick)):
                parts = np.array_split(favourites(tick, CROWD), CROWD // TOGETHER)
                came = [
                    part for part, taken in zip(parts, pool.map(self._report, parts), strict=True) if taken
                ]
                self.sent(tick, np.concatenate([np.empty(0, np.intp), *came]))
                tick = max(tick + 1, 1 + self._begun())

    def _begun(self) -> int:
        """How many ticks were before this one."""
        return (time.time_ns() // 1000 - self.stream.start) // self.stream.tick

    def _until(self, tick: int) -> float:
        """Seconds to when the reports of a tick are sent."""
        when = self.stream.begins(tick) + WITHIN * self.stream.tick
        return max(0.0, when / SECOND - time.time())

    def _report(self, picked: Places) -> bool:
        """Whether it was acknowledged; what was not is not sent again, and not in the truth."""
        reports = self.claim.privatise_many([ITEMS[place] for place in picked])
        return posted(self.host, "/api/reports", message(self.claim, reports), {"Content-Type": BINARY})
