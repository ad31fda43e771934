"""Sends the live clinic's visits to the server as any other system would: batches over HTTP, with a token.

**Promise.** A batch that was not acknowledged is sent again under the same key, and so counted once.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

from streamgauge.cli.feeding import PATIENCE, Feeding
from streamgauge.cli.live_clinic import Visit, visits_between

PAUSE = 0.25  # seconds between batches


class Feeder(Feeding):
    """Who listens to `sent` hears what was acknowledged."""

    def __init__(
        self, address: str, token: str, start: int, end: int | None, sent: Callable[[Sequence[Visit]], None]
    ) -> None:
        super().__init__("clinic")
        self.host = urlsplit(address).netloc
        self.token, self.start, self.end, self.sent = token, start, end, sent

    def _work(self) -> None:
        since = self.start
        while not self._stop.wait(PAUSE) and (self.end is None or since < self.end):
            now = time.time_ns() // 1000
            until = now if self.end is None else min(now, self.end)
            visits = visits_between(self.start, since, until)
            if visits and self._delivered(f"clinic-{until}", "\n".join(visit.line for visit in visits)):
                self.sent(visits)
            since = max(since, until)

    def _delivered(self, key: str, lines: str) -> bool:
        """Sends until it is acknowledged, or the demo ends."""
        while not self._stop.is_set():
            if self._post(key, lines):
                return True
            self._stop.wait(PAUSE)
        return False

    def _post(self, key: str, lines: str) -> bool:
        headers = {
            "Authorization": f"Bearer {self.token}",
            "Batch-Key": key,
            "Content-Type": "application/x-ndjson",
        }
        return posted(self.host, "/api/events", lines.encode(), headers)


def posted(host: str, path: str, body: bytes, headers: Mapping[str, str]) -> bool:
    """Whether it was acknowledged."""
    connection = HTTPConnection(host, timeout=PATIENCE)
    try:
        connection.request("POST", path, body, dict(headers))
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()
