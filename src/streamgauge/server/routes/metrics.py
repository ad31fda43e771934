"""Operational metrics in the text format of Prometheus.

**Privacy.** Metrics count events, so they are for the curator only. With pan_private = true they count nothing
that depends on events, not even requests that bring some.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import accumulate

from streamgauge.server.http.auth import Sessions
from streamgauge.server.http.limits import Limits
from streamgauge.server.http.middleware import EVENTS_PATH
from streamgauge.server.runner import Runner

PROMETHEUS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKET_SECONDS = (0.005, 0.025, 0.1, 0.5, 2.5, 10.0)  # seconds
RUN_STATES = ("starting", "running", "ended", "stopping", "failed")
COUNTED_METHODS = {"GET", "HEAD", "POST", "DELETE"}
LIVE_PATH = "/api/live"

Labels = dict[str, str]


class Metrics:
    """Counters of replies, and gauges of the run."""

    def __init__(self, runner: Runner, limits: Limits, sessions: Sessions) -> None:
        self.runner, self.limits, self.sessions = runner, limits, sessions
        self._reply_counts: Counter[tuple[str, str, str]] = Counter()
        self._bucket_counts = [0] * (len(BUCKET_SECONDS) + 1)
        self._total_seconds = 0.0

    def count_reply(self, method: str, route: str, status: int, seconds: float) -> None:
        if self.runner.file.stream.pan_private and route.startswith(EVENTS_PATH):
            return
        self._reply_counts[method if method in COUNTED_METHODS else "other", route, str(status)] += 1
        if route != LIVE_PATH:
            self._bucket_counts[bisect_left(BUCKET_SECONDS, seconds)] += 1
            self._total_seconds += seconds

    def render(self) -> str:
        return "\n".join([*self._render_requests(), *self._render_gauges(), *self._render_run()]) + "\n"

    def _render_requests(self) -> Iterator[str]:
        names = ("method", "route", "status")
        replies = [(dict(zip(names, key, strict=True)), count) for key, count in sorted(self._reply_counts.items())]
        yield from render_family("http_requests_total", "counter", "Answered requests.", replies)
        yield from render_heading("http_request_seconds", "histogram", "Duration of replies, without live ones.")
        bounds = [*map(str, BUCKET_SECONDS), "+Inf"]
        for bound, count in zip(bounds, accumulate(self._bucket_counts), strict=True):
            yield render_sample("http_request_seconds_bucket", {"le": bound}, count)
        yield render_sample("http_request_seconds_sum", {}, self._total_seconds)
        yield render_sample("http_request_seconds_count", {}, sum(self._bucket_counts))

    def _render_gauges(self) -> Iterator[str]:
        gauges = {
            "live_connections": ("Live connections.", self.limits.live_connections),
            "sessions": ("Open sessions.", len(self.sessions)),
            "inbound_batch_bytes": ("Bytes of incoming batches.", self.limits.buffered_bytes),
        }
        inbox = self.runner.inbox
        if inbox is not None and inbox.totals is not None:
            batches, pending_bytes = inbox.totals
            gauges["pending_bytes"] = ("Bytes of uncommitted batches.", pending_bytes)
            yield from render_family("batches_total", "counter", "Accepted batches.", [({}, batches)])
        for name, (about, value) in gauges.items():
            yield from render_family(name, "gauge", about, [({}, value)])
        states = [({"state": state}, int(self.runner.state == state)) for state in RUN_STATES]
        yield from render_family("run_state", "gauge", "State of the run.", states)

    def _render_run(self) -> Iterator[str]:
        progress = self.runner.progress
        if progress is None:
            return
        yield from render_family("committed_tick", "gauge", "Last committed tick.", [({}, progress.tick)])
        if not progress.counts_events:
            return
        yield from render_family("events_total", "counter", "Read records.", [({}, progress.events)])
        dropped = [({"rule": rule}, count) for rule, count in sorted(count_dropped(self.runner).items())]
        yield from render_family("dropped_records_total", "counter", "Dropped records by rule.", dropped)


def count_dropped(runner: Runner) -> dict[str, int]:
    """Return dropped records by rule, of the run and of the routes."""
    progress = runner.progress
    return {**({} if progress is None else progress.dropped), **runner.dropped}


def render_family(name: str, kind: str, about: str, values: Iterable[tuple[Labels, float]]) -> Iterator[str]:
    yield from render_heading(name, kind, about)
    for labels, value in values:
        yield render_sample(name, labels, value)


def render_heading(name: str, kind: str, about: str) -> Iterator[str]:
    yield f"# HELP streamgauge_{name} {about}"
    yield f"# TYPE streamgauge_{name} {kind}"


def render_sample(name: str, labels: Labels, value: float) -> str:
    """
    >>> render_sample("dropped_records_total", {"rule": 'no "time"'}, 3)
    'streamgauge_dropped_records_total{rule="no \\\\"time\\\\""} 3'
    """
    pairs = ",".join(f'{key}="{_escape(text)}"' for key, text in labels.items())
    return f"streamgauge_{name}{f'{{{pairs}}}' if pairs else ''} {value:.10g}"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
