"""Operational metrics in Prometheus' text format.

**Privacy.** They count events, so they are the curator's alone; nothing here is ever on the public side. With
pan_private = true they count nothing that has to do with events: not even how many requests brought some.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import accumulate

from streamgauge.server.access_log import EVENTS
from streamgauge.server.limits import Limits
from streamgauge.server.runner import Runner
from streamgauge.server.sessions import Sessions
from streamgauge.sources.inbox import Inbox

TYPE = "text/plain; version=0.0.4; charset=utf-8"
BOUNDS = (0.005, 0.025, 0.1, 0.5, 2.5, 10.0)  # seconds
STATES = ("starting", "running", "ended", "stopping", "failed")
METHODS = {"GET", "HEAD", "POST", "DELETE"}
ENDLESS = "/api/live"

Labels = dict[str, str]


class Metrics:
    """What was answered so far, and what is the case now."""

    def __init__(self, runner: Runner, limits: Limits, sessions: Sessions) -> None:
        self.runner, self.limits, self.sessions = runner, limits, sessions
        self._replies: Counter[tuple[str, str, str]] = Counter()
        self._within = [0] * (len(BOUNDS) + 1)
        self._seconds = 0.0

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        if self.runner.file.stream.pan_private and route.startswith(EVENTS):
            return
        self._replies[method if method in METHODS else "other", route, str(status)] += 1
        if route != ENDLESS:
            self._within[bisect_left(BOUNDS, seconds)] += 1
            self._seconds += seconds

    def text(self) -> str:
        return "\n".join([*self._requests(), *self._now(), *self._run()]) + "\n"

    def _requests(self) -> Iterator[str]:
        names = ("method", "route", "status")
        replies = [
            (dict(zip(names, key, strict=True)), count) for key, count in sorted(self._replies.items())
        ]
        yield from family("http_requests_total", "counter", "Requests that were answered.", replies)
        yield from heading("http_request_seconds", "histogram", "How long replies took, live ones left out.")
        bounds = [*map(str, BOUNDS), "+Inf"]
        for bound, count in zip(bounds, accumulate(self._within), strict=True):
            yield sample("http_request_seconds_bucket", {"le": bound}, count)
        yield sample("http_request_seconds_sum", {}, self._seconds)
        yield sample("http_request_seconds_count", {}, sum(self._within))

    def _now(self) -> Iterator[str]:
        gauges = {
            "live_connections": ("Live connections.", self.limits.live_connections),
            "sessions": ("Sessions that are open.", len(self.sessions)),
            "batch_bytes_held": ("Bytes of batches on their way into the inbox.", self.limits.held_bytes),
        }
        inbox = self.runner.inbox
        if isinstance(inbox, Inbox):
            gauges["waiting_bytes"] = ("Bytes of batches that are not committed.", inbox.waiting_bytes)
            yield from family("batches_total", "counter", "Batches that were taken.", [({}, inbox.batches)])
        for name, (about, value) in gauges.items():
            yield from family(name, "gauge", about, [({}, value)])
        states = [({"state": state}, int(self.runner.state == state)) for state in STATES]
        yield from family("run_state", "gauge", "What the run is doing.", states)

    def _run(self) -> Iterator[str]:
        progress = self.runner.progress
        if progress is None:
            return
        yield from family("tick", "gauge", "The last tick that was committed.", [({}, progress.tick)])
        if not progress.counts:
            return
        yield from family("events_total", "counter", "Records that were read.", [({}, progress.events)])
        dropped = [({"rule": rule}, count) for rule, count in sorted(dropped_by(self.runner).items())]
        yield from family("dropped_total", "counter", "Records that were dropped, by rule.", dropped)


def dropped_by(runner: Runner) -> dict[str, int]:
    """Records by the rule that dropped them, of the run and at its door."""
    progress = runner.progress
    return {**({} if progress is None else progress.dropped), **runner.dropped}


def family(name: str, kind: str, about: str, values: Iterable[tuple[Labels, float]]) -> Iterator[str]:
    yield from heading(name, kind, about)
    for labels, value in values:
        yield sample(name, labels, value)


def heading(name: str, kind: str, about: str) -> Iterator[str]:
    yield f"# HELP streamgauge_{name} {about}"
    yield f"# TYPE streamgauge_{name} {kind}"


def sample(name: str, labels: Labels, value: float) -> str:
    """
    >>> sample("dropped_total", {"rule": 'no "time"'}, 3)
    'streamgauge_dropped_total{rule="no \\\\"time\\\\""} 3'
    """
    told = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return f"streamgauge_{name}{f'{{{told}}}' if told else ''} {value:.10g}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
