"""The live demo of the local model: a poll of favourite emoji, in which nobody is trusted.

    /emoji       the poll: a pick is privatised in the browser, and what was sent is shown
    /            the collector's page, which has nothing but noise

A crowd of made-up devices reports beside whoever looks; the truth is told of the crowd alone.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event as Flag
from threading import Thread

from starlette.routing import BaseRoute, Route

from streamgauge.cli.crowd_feeder import TOGETHER, CrowdFeeder
from streamgauge.cli.crowd_truth import CrowdTruth
from streamgauge.cli.emoji_crowd import EMOJI, EPSILON, HASHES, MARK, SEED, WIDTH, sketch
from streamgauge.cli.live_clinic import SECOND
from streamgauge.cli.live_demo import end_with
from streamgauge.cli.screens import screen
from streamgauge.cli.served import served
from streamgauge.cli.watching import Watching
from streamgauge.pipeline.keys import create_key
from streamgauge.pipeline.options import Options
from streamgauge.query.pipeline_file import read_pipeline
from streamgauge.query.released import moment
from streamgauge.query.settings import PipelineFile
from streamgauge.server import truth
from streamgauge.server.page_files import page_files, send
from streamgauge.server.reports import client
from streamgauge.server.runner import Runner
from streamgauge.server.tokens import Tokens

PIPELINE = """
[stream]
name = "poll"
source = "reports"
senders = "anyone"
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
again = "repeat"
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


def live_emoji(folder: Path, port: int, ticks: int | None) -> None:
    """Opens the poll at the next second; ends with Ctrl-C, or by itself after so many ticks."""
    create_key(folder / "emoji.key")
    start = (time.time_ns() // 1000 // SECOND + 1) * SECOND
    file = read_pipeline(write_poll(folder, start, ticks))
    with Watching(file, quiet=True, as_json=False) as watching:
        served(file, Options(), watching, ("127.0.0.1", port), (), beside=Poll(file))
    screen().print(f"The poll is closed: its file, releases and ledger are in {folder}", soft_wrap=True)


def write_poll(folder: Path, start: int, ticks: int | None) -> Path:
    """The pipeline file of a poll that opens at `start`, for so many ticks or for ever."""
    end = "" if ticks is None else f'\nend = "{moment(start + ticks * SECOND)}"'
    told = {"epsilon": EPSILON, "hashes": HASHES, "width": WIDTH, "seed": SEED, "together": TOGETHER}
    values = ", ".join(f'"{item}"' for item in EMOJI)
    path = folder / "emoji.toml"
    text = MARK + PIPELINE.format(start=moment(start), end=end, values=values, **told)
    path.write_text(text, encoding="utf-8")
    return path


class Poll:
    """What a demo adds to a server: the page of the poll, a crowd, and the truth about it."""

    def __init__(self, file: PipelineFile) -> None:
        self.file = file

    def routes(self, runner: Runner) -> Sequence[BaseRoute]:
        self.truth = CrowdTruth(self.file, runner.now)
        return [*truth.routes(self.truth), *page_routes()]

    @contextmanager
    def at_work(self, address: str, runner: Runner, tokens: Tokens, stop: Flag) -> Iterator[None]:
        """While the server serves."""
        show(address, self.file.stream.ticks)
        feeder = CrowdFeeder(address, self.file.stream, sketch(), self.truth.take)
        feeder.begin()
        Thread(target=end_with, args=(runner, stop), name="end of the poll", daemon=True).start()
        try:
            yield
        finally:
            feeder.stop()


def page_routes() -> list[Route]:
    """The poll's own files, and the client that any page may have."""
    page = page_files("streamgauge.cli", "emoji_page") | {"client.js": client()}
    index = page.pop("index.html")
    return [
        Route("/emoji", partial(send, index), name="poll"),
        *(Route(f"/emoji/{name}", partial(send, file), name=f"poll {name}") for name, file in page.items()),
    ]


def show(address: str, ticks: int | None) -> None:
    """Where to look, and what to try."""
    until = "Ctrl-C ends it" if ticks is None else f"it ends by itself after {ticks:,} ticks"
    for line in (
        f"A poll of favourite emoji is live at {address}/emoji",
        "  pick one: your browser privatises it, and shows what it sent",
        "  switch on “Show the truth” to see what nobody knows of a real crowd",
        f"  what the collector has of it is at {address}",
        f"  {until}",
    ):
        screen().print(line, soft_wrap=True)
