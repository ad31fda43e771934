"""State of a live run without its release runs: exact, or pan-private and empty.

Exact state (`ExactMemory`)
    Open ticks, bounds of users, source position and bad records are exact and secret. On disk they are encrypted,
    under keys that the next commit destroys. An observer of the disk without the key sees the time and the length of
    each written part. So a commit writes the same parts at every commit, padded.

Pan-private state (`NoisyMemory`)
    Nothing but the release runs is remembered:

    block -> exact sums -> registers of the open tick, which already have noise -> forgotten

    Sums of ticks after the open one exist if the clock passes the end of a tick during a read. They wait until the
    end of that round, which closes the tick, and never longer. If the tick may not close yet, since commands wait,
    they are dropped: the events are lost.

    Privacy. Between rounds, only the registers of runs with open ticks depend on data. One look at them at any
    moment is covered by the claims of the releases (`continual.trees.tree`). No position, batch key, bad record or
    number of events is remembered, in memory or on disk. An engine counts its blocks, and lives for one round. A
    round is one step: an intruder in the middle of it sees the data in transit.

    The disk has the registers at the end of the last tick, or at a clean shutdown or a stop by the curator. They have
    noise and are sealed. Old and current registers share the same draws, so together they would show the events in
    between without noise. So the store is sealed for the run itself too (`Store.seal`): only the curator's key opens
    it, and the run drops that key. For the same reason, loaded and saved state is overwritten in memory after use,
    keys included. A crash loses all of the open tick. A release whose last tick has closed is neither in memory nor
    on disk.

Clean shutdown of a pan-private run
    clean shutdown: mark in the sealed state -> resume: mark removed before any read -> clean shutdown again
    no mark: the previous run was lost (a crash, a fault, a seized machine) -> its registers are rerandomized

    Privacy. A lost run had events that no commit has. An intruder who read its memory once, unannounced, saw them
    under the draws of the committed registers. If these registers continued, the intruder would see an event, and
    later releases under the same draws would show its absence: up to twice the claim. So they are replaced by
    released values and fresh draws that no intruder has read (`rerandomize` of `continual.trees.tree`, `two_part`,
    `hybrid` and `window_sum`). The mark is sealed with the state. It is absent in every commit of a run but its
    last.

    A copy that has the mark would continue with draws of a later run, whose memory may have been read. So the commit
    that sets the mark and the one that removes it are both entries of the history. The rollback guard records them
    before anything is read. So a copy from before either commit is refused, also in the middle of a tick.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from streamgauge.interfaces import Engine, StreamingSource
from streamgauge.plan.measure import Pass, Tally
from streamgauge.records.blocks import Block
from streamgauge.runtime.live.open_ticks import OpenTicks, next_power_of_two
from streamgauge.runtime.quarantine import QUARANTINE_PART, Quarantine
from streamgauge.runtime.release_run import Batches, ReleaseRun, state_name
from streamgauge.runtime.ticks import max_open_ticks
from streamgauge.store.encryption import SECRET_PART

if TYPE_CHECKING:
    from streamgauge.runtime.session import RunSession

MIN_POSITION_BYTES = 2**9  # least saved length; longer positions are padded to a power of two

StateParts = dict[str, bytes | None]


class ExactMemory:
    """State of a run that may remember exactly.

    No event that was read and committed is lost.
    """

    is_forgetful = False

    def __init__(self, session: "RunSession", batches: Batches, source: StreamingSource) -> None:
        self.batches, self.source = batches, source
        self.open_ticks = OpenTicks(batches.measures, max_open_ticks(session.file.stream))
        self.quarantine = Quarantine(session.state.get(QUARANTINE_PART))

    def change_measures(self) -> None:
        """Adapt the open ticks to the releases of the run."""
        self.open_ticks.change_measures(self.batches.measures)

    def restore(self, state: Mapping[str, bytes], engine: Engine) -> None:
        """Restore the state of the last commit."""
        self.source.resume(state.get("position"))
        if "open_ticks" in state:
            self.open_ticks.restore(state["open_ticks"])
        self.open_ticks.restore_reports(state)
        engine.bounds.restore(state)

    def add(self, engine: Engine, block: Block, answer: Pass, tick: int) -> None:
        """Add a block and the engine's answer to it. `tick` is the oldest open one."""
        self.batches.add_counts(answer)
        self.open_ticks.add(answer.tallies)
        self.quarantine.inspect_block(engine, block, answer.counts, self.source.header)

    def close(self, last: int) -> Sequence[Tally]:
        """Return and remove the sums of the ticks up to `last`."""
        return self.open_ticks.close(last)

    def discard_closed(self, engine: Engine, last: int) -> None:
        """Forget the users of the ticks up to `last`, which are released."""
        engine.bounds.forget(last)

    def end_round(self) -> None:
        """Do nothing: all sums stay."""

    def save_partial(self, engine: Engine, ticks: int, stopping: bool) -> StateParts:
        """Return the state for a commit that closes no tick. At most `ticks` are open."""
        state = self._save_read_state(ticks) | engine.bounds.save_changed()
        return state | self.quarantine.save_state() if stopping else state

    def save_all(self, engine: Engine, ticks: int) -> StateParts:
        """Return the state for a commit that closes a tick."""
        users, bad = engine.bounds.save(ticks), self.quarantine.save_state()
        return self._save_read_state(ticks) | users | bad | self.batches.save_state()

    def _save_read_state(self, ticks: int) -> StateParts:
        position = self.source.position()
        return {
            "position": position.ljust(next_power_of_two(len(position), MIN_POSITION_BYTES)),
            "open_ticks": self.open_ticks.save(ticks),
            **self.open_ticks.save_changes(),
        }


class NoisyMemory:
    """State of a run that may remember nothing exactly. Events enter the runs at once."""

    is_forgetful = True

    def __init__(self, session: "RunSession", batches: Batches, source: StreamingSource) -> None:
        self.batches, self.source = batches, source
        self._later_ticks = OpenTicks(batches.measures)  # exact: during a round only
        self._secret = session.secret
        session.forget()
        session.publisher.store.seal()

    def change_measures(self) -> None:
        """Adapt the sums to the releases of the run. Between two rounds there are none."""
        self._later_ticks = OpenTicks(self.batches.measures)

    def restore(self, state: Mapping[str, bytes], engine: Engine) -> None:
        """Resume the source at its current place: the runs already have the whole state."""
        self.source.resume(None)

    def add(self, engine: Engine, block: Block, answer: Pass, tick: int) -> None:
        self.batches.add_partial(answer.tallies, tick)
        self._later_ticks.add([tally.select(tally.ticks > tick) for tally in answer.tallies])

    def close(self, last: int) -> Sequence[Tally]:
        """Return the sums of ticks after the open one, whose sums are in the registers."""
        return self._later_ticks.close(last)

    def discard_closed(self, engine: Engine, last: int) -> None:
        for run in self.batches.runs:
            run.drop_finished_runs()
        self.batches.add_partial(self._later_ticks.close(last + 1), last + 1)

    def end_round(self) -> None:
        self._later_ticks = OpenTicks(self.batches.measures)

    def save_partial(self, engine: Engine, ticks: int, stopping: bool) -> StateParts:
        return self.save_all(engine, ticks) if stopping else {}

    def save_all(self, engine: Engine, ticks: int) -> StateParts:
        return {SECRET_PART: self._secret, **self.batches.save_state()}


CLEAN_SHUTDOWN_PART = "clean_shutdown"  # a part of the state
CLEAN_SHUTDOWN_STATE: Mapping[str, bytes] = {CLEAN_SHUTDOWN_PART: b""}


def resume(session: "RunSession") -> None:
    """Prepare a run before it reads anything.

    From now on the run counts as lost, until a clean shutdown.
    """
    rerandomize_lost_runs(session.runs, session.state)
    if CLEAN_SHUTDOWN_PART in session.state:
        session.publisher.commit(state={CLEAN_SHUTDOWN_PART: None}, entered=True)


def rerandomize_lost_runs(runs: Sequence[ReleaseRun], state: Mapping[str, bytes]) -> None:
    """Rerandomize runs whose loaded state lacks the mark of a clean shutdown.

    New runs have fresh draws already.
    """
    lost = runs if CLEAN_SHUTDOWN_PART not in state else ()
    for run in lost:
        if state_name(run.name, 0) in state:
            run.rerandomize()
