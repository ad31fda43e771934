"""The live demo of the local model: a poll of favourite emoji that needs no trusted party.

    /emoji       the poll: the browser privatises a pick, and shows the bytes that it sent
    /            the page of the collector, which has private reports only

Synthetic devices report beside the browsers that join. The truth covers the synthetic devices alone.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from starlette.routing import BaseRoute, Route

from streamgauge.cli.demo.live import MAX_STORED_TICKS, FeederThread, LiveDemo, LiveTruth, write_pipeline
from streamgauge.cli.demo.poll import (
    CROWD_SIZE,
    EMOJI_NAMES,
    EPSILON,
    HASH_COUNT,
    POLL_MARK,
    SKETCH_SEED,
    SKETCH_WIDTH,
    EmojiIndexes,
    build_sketch,
    draw_favourites,
)
from streamgauge.clock import MICROSECONDS_PER_SECOND
from streamgauge.config.settings import PipelineFile, Stream
from streamgauge.localdp import HadamardCountMeanSketch
from streamgauge.localdp.wire import pack_message
from streamgauge.noise import Ints
from streamgauge.server.http.tokens import Tokens
from streamgauge.server.routes.reports import BINARY_TYPE, load_client
from streamgauge.server.routes.static import build_file_response, load_page_files
from streamgauge.server.runner import Runner

ITEMS = tuple(EMOJI_NAMES)
SEND_WINDOW_FRACTION = 0.2  # of a tick: when its reports are sent
MAX_MESSAGE_REPORTS = 500  # reports of a message, and the most of the poll's file


class CrowdFeeder(FeederThread):
    """Devices that report over HTTP without a token, as real ones do.

    Each device privatises its own favourite. Several hundred reports share a message, so that one machine can
    send them all. All reports of a tick are sent well inside of it, so that the tick of arrival is known.
    """

    def __init__(self, address: str, stream: Stream, claim: HadamardCountMeanSketch, truth: "CrowdTruth") -> None:
        super().__init__(address, "crowd")
        self.stream, self.claim, self.truth = stream, claim, truth

    def _run(self) -> None:
        tick, last = 1, self.stream.ticks
        with ThreadPoolExecutor(CROWD_SIZE // MAX_MESSAGE_REPORTS) as pool:
            while (last is None or tick <= last) and not self._stop.wait(self._find_wait_seconds(tick)):
                parts = np.array_split(draw_favourites(tick, CROWD_SIZE), CROWD_SIZE // MAX_MESSAGE_REPORTS)
                sent = [part for part, done in zip(parts, pool.map(self._send_reports, parts), strict=True) if done]
                self.truth.add_favourites(tick, np.concatenate([np.empty(0, np.intp), *sent]))
                now = time.time_ns() // 1000
                tick = max(tick + 1, 1 + (now - self.stream.start) // self.stream.tick)

    def _find_wait_seconds(self, tick: int) -> float:
        """Return the seconds until the reports of a tick are sent."""
        when = self.stream.tick_start(tick) + SEND_WINDOW_FRACTION * self.stream.tick
        return max(0.0, when / MICROSECONDS_PER_SECOND - time.time())

    def _send_reports(self, picked: EmojiIndexes) -> bool:
        """Return whether reports were acknowledged; others are not sent again, and not in the truth."""
        reports = self.claim.privatise_many([ITEMS[place] for place in picked])
        return self._post("/api/reports", pack_message(self.claim, reports), {"Content-Type": BINARY_TYPE})


class CrowdTruth(LiveTruth):
    """Acknowledged favourites of the synthetic crowd, by tick and emoji; other devices are not counted."""

    def __init__(self, file: PipelineFile, now: Callable[[], int]) -> None:
        super().__init__(file, now)
        sizes = {release.name: release.window.partition(" ")[2] for release in file.releases}
        self.window_ticks = {name: int(size) if size else None for name, size in sizes.items()}  # None: running
        self._sums: dict[int, Ints] = {0: np.zeros(len(EMOJI_NAMES), np.int64)}  # running, by the last tick

    def add_favourites(self, tick: int, picked: Ints) -> None:
        """Add the acknowledged favourites of a tick; ticks come in order."""
        with self._lock:
            last = max(self._sums)
            for each in range(last + 1, tick + 1):
                self._sums[each] = self._sums[last]
            self._sums[tick] = self._sums[tick] + np.bincount(picked, minlength=len(EMOJI_NAMES))
            for old in [each for each in self._sums if each < tick - MAX_STORED_TICKS]:
                del self._sums[old]

    def columns(self, release: str, first: int, last: int) -> dict[str, Any] | None:
        """Return values in the columns form; None for an unknown release."""
        if release not in self.window_ticks:
            return None
        with self._lock:
            values = [self._find_values(tick, self.window_ticks[release]) for tick in range(first, last + 1)]
        return {
            "release": release,
            "tick": list(range(first, last + 1)),
            "places": [{"emoji": item} for item in EMOJI_NAMES],
            "measures": {"count": {"value": values}},
        }

    def _find_values(self, tick: int, size: int | None) -> list[float | None]:
        """Return the counts at a tick; None if the tick is open or too old."""
        before = 0 if size is None else max(0, tick - size)
        if not self._is_complete(tick) or not {tick, before} <= self._sums.keys():
            return [None] * len(EMOJI_NAMES)
        return [float(count) for count in self._sums[tick] - self._sums[before]]


PIPELINE_TEXT = """
[stream]
name = "poll"
source = "reports"
allow_reports_from = "anyone"
tick = "1s"
start = "{start}"{end}
unit = "report"
budget = {{ epsilon = {epsilon} }}
key = "file:emoji.key"   # beside the data, as a demo may: keep yours on another disk

[stream.columns.emoji]
report = "HadamardCountMeanSketch"
epsilon = {epsilon}
values = [{values}]
hashes = {hashes}
width = {width}
seed = {seed}
on_repeat = "repeat"
reports_per_user = 1

[server]
anonymous = true
max_reports = {together}   # of one message, for the crowd's sake: a device sends one

[[release]]
name = "favourites"
title = "Favourite emoji"
description = "Of all devices that reported since the poll began."
sql = "SELECT emoji, COUNT(*) FROM poll GROUP BY emoji"
window = "running"

[[release]]
name = "favourites_now"
title = "Favourite emoji of the last minute"
sql = "SELECT emoji, COUNT(*) FROM poll GROUP BY emoji"
window = "sliding 1m"
"""


def write_poll(folder: Path, start: int, ticks: int | None) -> Path:
    """Write the pipeline file of a poll that opens at `start`, with so many ticks or no end."""
    values = ", ".join(f'"{item}"' for item in EMOJI_NAMES)
    sizes = {"hashes": HASH_COUNT, "width": SKETCH_WIDTH, "seed": SKETCH_SEED, "together": MAX_MESSAGE_REPORTS}
    template = POLL_MARK + PIPELINE_TEXT
    return write_pipeline(folder / "emoji.toml", template, start, ticks, epsilon=EPSILON, values=values, **sizes)


class PollDemo(LiveDemo):
    """The poll behind the server: its page, a crowd, and the truth about the crowd."""

    title, key_name = "poll", "emoji.key"

    def routes(self, runner: Runner) -> Sequence[BaseRoute]:
        return [*super().routes(runner), *build_page_routes()]

    def _build_truth(self, runner: Runner) -> LiveTruth:
        self.crowd = CrowdTruth(self.file, runner.now)
        return self.crowd

    def _build_feeder(self, address: str, tokens: Tokens) -> tuple[FeederThread, Sequence[str]]:
        return CrowdFeeder(address, self.file.stream, build_sketch(), self.crowd), (
            f"A poll of favourite emoji is live at {address}/emoji",
            "  pick one: your browser privatises it, and shows the bytes that it sent",
            "  switch on “Show the truth” to see the exact numbers, which a real poll never has",
            f"  the page of the collector is at {address}",
        )


def build_page_routes() -> list[Route]:
    """Return the routes of the poll's page, and of the client for any page."""
    page = load_page_files("streamgauge.cli.demo", "poll_page") | {"client.js": load_client()}
    index = page.pop("index.html")
    return [
        Route("/emoji", partial(build_file_response, index), name="poll"),
        *(
            Route(f"/emoji/{name}", partial(build_file_response, file), name=f"poll {name}")
            for name, file in page.items()
        ),
    ]
