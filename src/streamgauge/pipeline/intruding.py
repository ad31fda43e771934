"""An announced intrusion into a pan-private pipeline: noise, everything that it remembers handed over, noise.

    lock, key, store -> of every run: noise, a copy, noise -> commit: what goes on, and the act -> the copies

A run that was lost, and not set down, is begun anew before (`set_down`).

Privacy
    What is handed over has noise of its own, and what goes on has more that nobody has seen: whoever looked
    before, or looks later, unannounced, finds no two states that differ by data alone (see the claims of
    `continual.tree`, `continual.window_sum` and `panprivate`). A counter takes any number of intrusions; a
    table of users as many as its claim reserves, whose loss was charged with it: the next is refused
    (`NoIntrusionLeft`).

    The copies are in memory alone until the state that goes on, and the act that says so, are committed, the
    witness has the commit, and the journal is empty. So a crash leaves an intrusion on record of which
    nothing was handed over, never the reverse; and the copies are gone with it: no noise is ever handed over
    twice.

It happens between two runs. A run keeps no key by which its store could be opened, and a second process must
not draw for it.
"""

import resource
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from streamgauge.noise import Noise
from streamgauge.panprivate import NoIntrusionLeft
from streamgauge.pipeline.asked_releases import with_asked
from streamgauge.pipeline.book import Book
from streamgauge.pipeline.clock import Clock, SystemClock
from streamgauge.pipeline.database import STORE
from streamgauge.pipeline.edits import edits
from streamgauge.pipeline.handed_over import check_outside, check_place, hand_over, place
from streamgauge.pipeline.holding import Holding
from streamgauge.pipeline.intruded_state import Named, ReleaseSeen, described, on_disk
from streamgauge.pipeline.intrusions import INTRUSION, Intrusions, goes_on
from streamgauge.pipeline.keys import default_key, hidden
from streamgauge.pipeline.opening import OPENED
from streamgauge.pipeline.options import Options, Step, nothing
from streamgauge.pipeline.publishing import Publisher
from streamgauge.pipeline.reading import read_book, read_tick
from streamgauge.pipeline.release_run import ReleaseRun, of_others, state_name
from streamgauge.pipeline.rollback import look_for_rollback
from streamgauge.pipeline.running_on import plan_of_ended
from streamgauge.pipeline.sealed import overwrite
from streamgauge.pipeline.set_down import MARKED, SET_DOWN, begin_lost_anew
from streamgauge.pipeline.store import Act
from streamgauge.pipeline.store_errors import AlreadyRunning
from streamgauge.pipeline.words import loss_text, unit_text
from streamgauge.query.released import moment
from streamgauge.query.settings import PipelineFile, Stream

HEADS = 2**16  # bytes of a manifest and of the heads of arrays, for each part of the state
STIRRED = (
    "every register and entry that holds data had noise drawn into it before this copy was taken, and once "
    "more after it: the run goes on from that, which nobody has seen"
)
NO_POSITIONS = "where a source is, which batches came and how many events there were is not remembered"
NEVER_RAN = "pipeline must have run to be intruded upon, got one that remembers nothing"
OVER = "pipeline must have a release that goes on to be intruded upon, got none: it remembers nothing"


class IntrusionRefused(ValueError):  # noqa: N818 - refusals are named by what they say
    """An intrusion that could not be survived, or has nothing to look at. Nothing was drawn."""


class StillRunning(IntrusionRefused):
    """A run or a server holds the pipeline."""


@dataclass(frozen=True)
class HandedOver:
    """An intrusion that is on record, and where everything is that was seen."""

    folder: Path
    number: int
    tick: int
    manifest: Mapping[str, Any]


def check_intrusion(file: PipelineFile, to: Path) -> Intrusions:
    """What can be refused without a key; tells how many there were, and are left."""
    name = file.path.name
    if why := ordinary(file.stream):
        raise IntrusionRefused(f"{name}: {why}")
    if not (file.folder / STORE).exists():
        raise IntrusionRefused(f"{name}: {NEVER_RAN}")
    check_outside(to, file.folder)
    check_place(to)
    known = Intrusions.of(read_book(file.folder, file.stream), file.stream, read_tick(file.folder))
    if known.left == 0:
        raise none_left(file)
    return known


def ordinary(stream: Stream) -> str | None:
    """Why a stream cannot be intruded upon, by its file: what it remembers."""
    if stream.pan_private:
        return None
    if not stream.reports:
        rule = "pan_private must be true to survive an intrusion, got false"
        return f"{rule}: what it remembers is exact, and encrypted"
    noise, plain = list(stream.reports), [name for name in stream.columns if name not in stream.reports]
    told = f"what is kept of {', '.join(noise)} is noise, which the collector has anyway"
    rest = f"; what is kept of {', '.join(plain)} is exact, and encrypted" if plain else ""
    return f'source must be other than "reports" to be intruded upon: {told}{rest}'


def none_left(file: PipelineFile) -> NoIntrusionLeft:
    refusal = NoIntrusionLeft(file.stream.intrusions)
    refusal.add_note(file.path.name)
    return refusal


def intrude(
    file: PipelineFile,
    to: Path,
    *,
    noise: Noise | None = None,
    clock: Clock | None = None,
    step: Step = nothing,
) -> HandedOver:
    """Holds an announced intrusion, and writes what is handed over to a new folder."""
    check_intrusion(file, to)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with Holding(file) as holding:
        try:
            publisher = holding.publisher(step)
        except AlreadyRunning as refusal:
            way = "stop that run or server (Ctrl-C), intrude, then start it again"
            raise StillRunning(f"{file.path.name}: {refusal}: {way}") from None
        return Intrusion(file, publisher, clock or SystemClock(), noise).held(holding, to, step)


class Intrusion:
    """Into an open store, under its lock."""

    def __init__(self, file: PipelineFile, publisher: Publisher, clock: Clock, noise: Noise | None) -> None:
        self.file, self.publisher, self.clock = file, publisher, clock
        self.store = publisher.store
        self.book = Book.read(self.store.acts(), file.stream.unit)
        self._refuse_another()
        self.state, self.runs = self.store.state(), list[ReleaseRun]()
        try:
            for name in self._names():
                self.runs.append(self._run_of(name, noise))
            begin_lost_anew(self.runs, self.state)
        except BaseException:
            self.forget()
            raise

    def forget(self) -> None:
        """Overwrites what was loaded and what goes on, which is in the store: beside the memory of the next
        run either would be a second look."""
        for run in self.runs:
            run.forget()
        overwrite(self.state)

    def _refuse_another(self) -> None:
        """A stream that is not the one that was charged, and a store that is not the newest."""
        changed = edits(with_asked(self.file, self.book), (), self.book)
        if changed.refused:
            raise IntrusionRefused(f"{self.file.path.name}: {'; '.join(changed.refused)}")
        look_for_rollback(self.publisher, self.book, self.file.stream, Options(clock=self.clock))

    def _names(self) -> list[str]:
        """The releases that anything is remembered of, and that go on."""
        entries, tick = self.book.entries, self.store.tick
        going = [name for name, entry in entries.items() if goes_on(entry, tick)]
        found = [name for name in going if state_name(name, 0) in self.state]
        if not found:
            raise IntrusionRefused(f"{self.file.path.name}: {NEVER_RAN if going or not entries else OVER}")
        return found

    def _run_of(self, name: str, noise: Noise | None) -> ReleaseRun:
        entry = self.book.entries[name]
        plan = plan_of_ended(self.file, entry, self.book)
        run = ReleaseRun.load(plan, name, entry.first, self.state, noise)
        run.ended = entry.ended
        return run

    @property
    def other(self) -> dict[str, Named]:
        """What is remembered beside the runs, by the names of files."""
        beside = (name for name in self.state if not name.startswith("run/") and name != SET_DOWN)
        parts = {name: self.state[name] for name in beside}
        return {f"{name}.npy": (name, np.frombuffer(part, np.uint8)) for name, part in parts.items()}

    @property
    def room(self) -> int:
        """Bytes that a hand-over takes, at most."""
        return sum(map(len, self.state.values())) + HEADS * (1 + len(self.state))

    def held(self, holding: Holding, to: Path, step: Step) -> HandedOver:
        """Draws, commits, and hands over what was seen in between; nothing else of it stays."""
        try:
            return self._held(holding, to, step)
        finally:
            self.forget()

    def _held(self, holding: Holding, to: Path, step: Step) -> HandedOver:
        with place(to, self.room) as partial:
            seen = [self._seen(run) for run in self.runs]
            act = self._committed()
            manifest = self._public(act) | {"journal_emptied": self.store.empty_journal()}
            holding.let_go()
            step("intruded")
            manifest |= self._told(seen)
            files = {name: each for release in seen for name, each in release.files.items()} | self.other
            hand_over(partial, to, {name: array for name, (_, array) in files.items()}, manifest)
        return HandedOver(to, act.body["number"], act.body["tick"], manifest)

    def _seen(self, run: ReleaseRun) -> ReleaseSeen:
        try:
            return ReleaseSeen.of(run)
        except NoIntrusionLeft:
            raise none_left(self.file) from None

    def _committed(self) -> Act:
        """What goes on, and the act, in one transaction; then readers and the witness know of it."""
        number = Intrusions.of(self.book, self.file.stream).made + 1
        names = [run.name for run in self.runs]
        body = {"number": number, "tick": self.store.tick, "releases": names}
        act = Act(INTRUSION, body, time=self.clock.now())
        state = {name: part for run in self.runs for name, part in run.saved().items()}
        over = of_others(self.state, names)  # where an earlier version remembers them
        try:
            self.publisher.commit(acts=[act], state={**over, **state, **MARKED})
        finally:
            overwrite(state)
        return act

    def _public(self, act: Act) -> dict[str, Any]:
        opened = int(self.store.marks().get(OPENED, b"0"))
        return {
            "pipeline": self.file.path.name,
            "store": self.store.identity,
            "intrusion": act.body["number"],
            "time": moment(act.time),
            "tick": act.body["tick"],
            "open_tick": opened if opened > act.body["tick"] else None,
            "protects": unit_text(self.file.stream.unit),
            "budget": loss_text(self.file.stream.budget),
            "re_randomised": STIRRED,
            "positions": [],
            "about_positions": NO_POSITIONS,
        }

    def _told(self, seen: list[ReleaseSeen]) -> dict[str, Any]:
        key = hidden(self.file.stream.key or default_key(self.file.path))
        return {
            "releases": [release.as_json() for release in seen],
            "other": described(self.other),
            "disk": {"folder": str(self.file.folder), "key": key, "files": on_disk(self.file.folder)},
        }
