"""The live demo: the synthetic clinic behind the real server, fed over HTTP by a thread of its own."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from threading import Event as Flag
from threading import Thread

from starlette.routing import BaseRoute

from streamgauge.cli.live_clinic import SECOND, SHARE, write_live_clinic
from streamgauge.cli.live_feeder import Feeder
from streamgauge.cli.live_truth import LiveTruth
from streamgauge.cli.screens import screen
from streamgauge.cli.served import served
from streamgauge.cli.watching import Watching
from streamgauge.pipeline.keys import create_key
from streamgauge.pipeline.options import Options
from streamgauge.query.pipeline_file import read_pipeline
from streamgauge.query.settings import PipelineFile
from streamgauge.server import truth
from streamgauge.server.runner import Runner
from streamgauge.server.tokens import Tokens

LOOK = 0.2  # seconds between looks at whether all is over


def live_demo(folder: Path, port: int, ticks: int | None) -> None:
    """Opens the clinic at the next second; ends with Ctrl-C, or by itself after so many ticks."""
    create_key(folder / "clinic.key")
    start = (time.time_ns() // 1000 // SECOND + 1) * SECOND
    file = read_pipeline(write_live_clinic(folder, start, ticks))
    with Watching(file, quiet=True, as_json=False) as watching:
        served(file, Options(), watching, ("127.0.0.1", port), (), beside=Clinic(file))
    screen().print(f"The clinic is closed: its file, releases and ledger are in {folder}", soft_wrap=True)


class Clinic:
    """What a demo adds to a server: people who come, the truth about them, and two tokens."""

    def __init__(self, file: PipelineFile) -> None:
        self.file = file

    def routes(self, runner: Runner) -> Sequence[BaseRoute]:
        self.truth = LiveTruth(self.file, runner.book, runner.now)
        return truth.routes(self.truth)

    @contextmanager
    def at_work(self, address: str, runner: Runner, tokens: Tokens, stop: Flag) -> Iterator[None]:
        """While the server serves."""
        feeding, asking = (
            tokens.create("clinic", "curator"),
            tokens.create("visitor", "analyst", Fraction(SHARE)),
        )
        show(address, asking, self.file.stream.ticks)
        stream = self.file.stream
        feeder = Feeder(address, feeding, stream.start, stream.end, self.truth.take)
        feeder.begin()
        Thread(target=end_with, args=(runner, stop), name="end of the clinic", daemon=True).start()
        try:
            yield
        finally:
            feeder.stop()


def end_with(runner: Runner, stop: Flag) -> None:
    """Stops the server once the last tick has left."""
    while not stop.wait(LOOK):
        if runner.state == "failed" or (runner.state == "ended" and all_left(runner)):
            stop.set()


def all_left(runner: Runner) -> bool:
    with runner.board.reading() as reader:
        return reader.tick >= (runner.file.stream.ticks or 0)


def show(address: str, token: str, ticks: int | None) -> None:
    """Where to look, and what to try."""
    until = "Ctrl-C ends it" if ticks is None else f"it ends by itself after {ticks:,} ticks"
    for line in (
        f"A synthetic clinic is live at {address}",
        "  a tick a second; switch on “Show the truth” to see what no reader of a real clinic can",
        f"  to ask it something, sign in as an analyst with {token}",
        f"  {until}",
    ):
        screen().print(line, soft_wrap=True)
