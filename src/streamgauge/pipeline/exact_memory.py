"""What a live run remembers besides its releases' runs: open ticks, bounds of users, position, bad records.

All of it is exact and secret: on disk it is encrypted, under keys that die with the next commit. Who has the
disk and no key sees which parts were written when, and how long they are: so a commit writes the same parts
whatever has changed, padded.
"""

from collections.abc import Mapping, Sequence

from streamgauge.engines import DuckEngine
from streamgauge.engines.passes import Pass
from streamgauge.pipeline.batches import Batches
from streamgauge.pipeline.by_clock import open_ticks
from streamgauge.pipeline.open_keys import power
from streamgauge.pipeline.open_ticks import OpenTicks
from streamgauge.pipeline.opening import Opened
from streamgauge.pipeline.quarantine import PART, Quarantine
from streamgauge.query.blocks import Block
from streamgauge.query.measure import Tally
from streamgauge.query.protocols import Live

POSITION = 2**9  # bytes, saved, or a power of two

State = dict[str, bytes | None]


class ExactMemory:
    """Of a run that may remember exactly: nothing that was read and committed is lost."""

    forgets = False

    def __init__(self, opened: Opened, batches: Batches, source: Live) -> None:
        self.batches, self.source = batches, source
        self.waiting = OpenTicks(batches.measures, open_ticks(opened.file.stream))
        self.quarantine = Quarantine(opened.state.get(PART))

    def restore(self, state: Mapping[str, bytes], engine: DuckEngine) -> None:
        """What the last commit had."""
        self.source.resume(state.get("position"))
        if "waiting" in state:
            self.waiting.restore(state["waiting"])
        self.waiting.restore_reports(state)
        engine.bounds.restore(state)

    def add(self, engine: DuckEngine, block: Block, answer: Pass, tick: int) -> None:
        """A block, and what the engine made of it; `tick` is the oldest that is open."""
        self.batches.counted(answer)
        self.waiting.add(answer.tallies)
        self.quarantine.look(engine, block, answer.counts, self.source.header)

    def close(self, last: int) -> Sequence[Tally]:
        """The sums of the ticks up to `last`, which are over."""
        return self.waiting.close(last)

    def closed(self, engine: DuckEngine, last: int) -> None:
        """Ticks up to `last` were released."""
        engine.bounds.forget(last)

    def rested(self) -> None:
        """A round is over: whatever came is kept."""

    def between(self, engine: DuckEngine, ticks: int, leaving: bool) -> State:
        """What a commit has that closes no tick; `ticks` are open at most."""
        state = self._read_so_far(ticks) | engine.bounds.changed()
        return state | self.quarantine.saved() if leaving else state

    def whole(self, engine: DuckEngine, ticks: int) -> State:
        """What the commit of a tick has."""
        users, bad = engine.bounds.saved(ticks), self.quarantine.saved()
        return self._read_so_far(ticks) | users | bad | self.batches.saved()

    def _read_so_far(self, ticks: int) -> State:
        position = self.source.position()
        return {
            "position": position.ljust(power(len(position), POSITION)),
            "waiting": self.waiting.saved(ticks),
            **self.waiting.changed(),
        }
