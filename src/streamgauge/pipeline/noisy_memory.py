"""What a pan-private live run remembers besides its releases' runs: nothing.

    block -> exact sums -> into the registers of the open tick, which hold noise already -> forgotten

Sums of ticks after the open one come where the clock passes a tick's end while its source is read: they wait
until the end of that round, which closes the tick, and never rest. A tick that may not close yet (others wait
for their turn) lets them go: they are lost.

Privacy
    Between rounds, all that depends on data are the registers of runs whose ticks are open: what one look at
    them at any moment tells is within the claims of the releases (`continual.tree`). No position, no batch
    key, no bad record and no number of events is remembered, in memory or on disk; how many blocks an engine
    has read goes with the engine, which lives for a round. A round is one step: who looks in the middle of it
    sees what is on its way.

    On disk is what the registers were at the last tick's end, or when a run was set down or stopped by its
    curator: noisy as they are, and sealed. Together with the registers as they are now it would show what
    came in between without noise, for both have the same draws; so the store is sealed for the run itself too
    (`Store.seal`): the curator's key, which a run lets go of, opens it and nothing else. For the same reason
    what was loaded, and what was saved, is overwritten in memory once it was used, keys included. A crash
    loses all of the open tick (`set_down`). Of a release whose last tick has closed, neither has anything.
"""

from collections.abc import Mapping, Sequence

from streamgauge.engines import DuckEngine
from streamgauge.engines.passes import Pass
from streamgauge.pipeline.batches import Batches
from streamgauge.pipeline.exact_memory import State
from streamgauge.pipeline.open_ticks import OpenTicks
from streamgauge.pipeline.opening import Opened
from streamgauge.pipeline.sealed import SECRET
from streamgauge.query.blocks import Block
from streamgauge.query.measure import Tally
from streamgauge.query.protocols import Live


class NoisyMemory:
    """Of a run that may remember nothing exactly: what comes is poured into the runs at once."""

    forgets = True

    def __init__(self, opened: Opened, batches: Batches, source: Live) -> None:
        self.batches, self.source = batches, source
        self._later = OpenTicks(batches.measures)  # exact: within a round only
        self._secret = opened.secret
        opened.forget()
        opened.publisher.store.seal()

    def restore(self, state: Mapping[str, bytes], engine: DuckEngine) -> None:
        """The runs have all there is; a source is where it is."""
        self.source.resume(None)

    def add(self, engine: DuckEngine, block: Block, answer: Pass, tick: int) -> None:
        self._pour(answer.tallies, tick)
        self._later.add([tally.only(tally.ticks > tick) for tally in answer.tallies])

    def close(self, last: int) -> Sequence[Tally]:
        """The sums of ticks after the open one, which is in the registers."""
        return self._later.close(last)

    def closed(self, engine: DuckEngine, last: int) -> None:
        for run in self.batches.runs:
            run.let_go()
        self._pour(self._later.close(last + 1), last + 1)

    def rested(self) -> None:
        self._later = OpenTicks(self.batches.measures)

    def between(self, engine: DuckEngine, ticks: int, leaving: bool) -> State:
        return self.whole(engine, ticks) if leaving else {}

    def whole(self, engine: DuckEngine, ticks: int) -> State:
        return {SECRET: self._secret, **self.batches.saved()}

    def _pour(self, tallies: Sequence[Tally], tick: int) -> None:
        place = 0
        for run in self.batches.runs:
            mine = tallies[place : place + len(run.scan.measures)]
            place += len(mine)
            run.absorb(mine, tick)
