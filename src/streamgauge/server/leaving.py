"""What was committed, on its way to readers: a thread that waits for the clock and advances the board.

    heard(entry) -> Departures -> the note -> Board

Whoever reads looks at the clock too, and shows what has left by then; what live readers are sent is made
ready by the thread alone, so that nobody who reads waits for that.

That a run is over is known when its last tick is committed, so it leaves with that.

What has left once is shown again at once after a restart, for how far readers have come is noted before they
see it; all that is committed beyond the note leaves at the first multiple after the store was last written,
and no sooner than without a restart.
"""

from collections.abc import Callable
from contextlib import suppress
from threading import Event as Flag
from threading import Lock, Thread

from streamgauge.pipeline.clock import SECOND
from streamgauge.pipeline.reader import Reader
from streamgauge.pipeline.store_errors import NoStore, StoreError
from streamgauge.query.settings import PipelineFile
from streamgauge.server.board import Board
from streamgauge.server.departures import Departures
from streamgauge.server.gathering import Gathering
from streamgauge.server.noted import Noted

GLANCE = 0.25  # seconds after which the clock is looked at again, for it may have been set
MOMENT = 0.1  # seconds that a reader waits for who shows the same at that moment


class Leaving:
    """Lets entries leave at their time; one thread of its own, between `start` and `stop`."""

    def __init__(self, file: PipelineFile, board: Board, now: Callable[[], int]) -> None:
        self.board, self.now, self.stream = board, now, file.stream
        board.look = self.glance
        self.departures = Departures(file.stream.start, file.server.publish_delay)
        self._noted, self._gathering = Noted(file.folder), Gathering(self.departures)
        self._bell, self._over, self._looking = Flag(), False, Lock()
        self._newest = 0
        self._final: int | None = None  # the last entry of a run that is over
        self._thread = Thread(target=self._work, name="streamgauge departures", daemon=True)

    def start(self) -> None:
        """Shows what has left before, then goes on."""
        with suppress(NoStore), Reader.at(self._noted.folder) as reader:
            self.departures.left = self._noted.read(reader)
            written = min(self._noted.last_write() + SECOND, self.now())
            told = max((act.time for act in reader.acts()), default=0)  # when acts are shown, at the earliest
            ready = max(written, min(told, self._gathering.heard(self.now())))
            self.departures.add(reader.number, committed=ready, closed=self._closed(reader.tick))
        self.glance()
        self._thread.start()

    def heard(self, entry: int, *, closed: int = 0) -> int:
        """An entry was committed by now; tells when it leaves."""
        self._newest, self._final = entry, None
        leaves = self.departures.add(entry, committed=self.now(), closed=closed)
        self._bell.set()
        return leaves

    def _closed(self, tick: int) -> int:
        """When a tick closed; those of a finished source did before it was read."""
        live = self.stream.arrival == "live" and tick > 0
        return self.stream.begins(tick + 1) + self.stream.lateness if live else 0

    def begun(self, entry: int) -> None:
        """The server has started, and its run is open: what was charged before it read anything is public."""
        self._newest = entry
        self.departures.add_at(entry, self.now())
        self.glance()

    def ended(self) -> None:
        """The run is over: readers hear of it with its last entry."""
        self._final = self._newest
        self._bell.set()

    def look(self) -> None:
        """Shows what has left by now, and makes it ready for live readers."""
        with self._looking:
            self._show()
        with suppress(NoStore):
            self.board.ready()
        if self._final is not None and self._final <= self.board.sent.number:
            self._final = None
            self.board.tell("ended")

    def glance(self) -> None:
        """For who reads: the same, but for what takes long; who shows it already is not waited for."""
        if self._looking.acquire(timeout=MOMENT):
            try:
                self._show()
            finally:
                self._looking.release()

    def _show(self) -> None:
        with suppress(NoStore):
            number = self.departures.passed(self.now())
            if number > self.board.shown.number and self._note(number):
                self.board.show(number)
                self._bell.set()

    def _note(self, number: int) -> bool:
        """Whether it could be noted: on a full disk readers go on with what they have seen."""
        with self.board.readers.lent(number) as reader:
            try:
                self._noted.write(reader.number, reader.chain)
            except OSError:
                return False
        return True

    def stop(self) -> None:
        self._over = True
        self._bell.set()
        if self._thread.is_alive():
            self._thread.join()

    def _work(self) -> None:
        while not self._over:
            self._bell.clear()
            with suppress(StoreError, OSError):  # a store that cannot be read now is looked at again
                self.look()
            wait = self.departures.wait(self.now())
            behind = self.departures.left > self.board.sent.number
            seconds = GLANCE if behind else None if wait is None else min(GLANCE, wait / SECOND)
            self._bell.wait(seconds)
