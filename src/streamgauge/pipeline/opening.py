"""What happens before the first tick of a run: lock, key, store, edits, charges, sinks.

Everything that can be refused is refused here, before a charge, for reasons that are in declarations or in
the store, never in the data. Charges are committed before anything is drawn, and what was charged can be run:
releases are built before their charge is committed.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from streamgauge.noise.entropy import system_key
from streamgauge.pipeline.as_charged import planned_as_charged
from streamgauge.pipeline.asked_releases import (
    AskRefused,
    end_refused,
    many_refused,
    name_refused,
    room_refused,
    with_asked,
)
from streamgauge.pipeline.batches import Batches
from streamgauge.pipeline.book import Book, Entry, base_name
from streamgauge.pipeline.by_clock import closed_tick, newest_tick
from streamgauge.pipeline.discovered_run import DiscoveredRun
from streamgauge.pipeline.edits import Edits, edits
from streamgauge.pipeline.holding import Holding
from streamgauge.pipeline.options import Options
from streamgauge.pipeline.publishing import Publisher, shapes_of
from streamgauge.pipeline.release_run import ReleaseRun, of_others
from streamgauge.pipeline.rollback import Rollback, look_for_rollback
from streamgauge.pipeline.room import no_memory, too_little
from streamgauge.pipeline.running_on import RunningOn, last_of, least_of, plan_of_ended
from streamgauge.pipeline.sealed import SECRET, overwrite
from streamgauge.pipeline.shares import check_share
from streamgauge.pipeline.store import Act
from streamgauge.pipeline.taken import Taken
from streamgauge.pipeline.words import loss_text
from streamgauge.query.formats import STANDARD
from streamgauge.query.planner import planned
from streamgauge.query.promises import describe_contributions
from streamgauge.query.report_stream import ARRIVED
from streamgauge.query.settings import PipelineFile
from streamgauge.query.source_schema import SourceSchema, find_refusal, find_refusals

FINGERPRINT = "fingerprint"
OPENED = "opened"  # the mark of the last tick that an event may have been counted in: public, by the clock


class RunRefused(ValueError):  # noqa: N818 - refusals are named by what they say
    """A run that must not start: why, and what to do."""


@dataclass
class Opened:
    """A run that is ready for its next tick."""

    file: PipelineFile
    options: Options
    publisher: Publisher
    book: Book
    state: dict[str, bytes]  # as it was when the run began
    runs: list[ReleaseRun]

    @property
    def secret(self) -> bytes:
        """Keys the hashes of users; drawn once for each store."""
        return self.state[SECRET]

    @property
    def taken(self) -> Taken:
        """By the plans: a record's time is of all columns, and makes none that is read."""
        return Taken.of(
            (run.first, run.last_tick, run.planned.query.columns - {ARRIVED}) for run in self.runs
        )

    def warn_of_header(self, header: Sequence[str] | None) -> None:
        """Warn the curator of a file that came after the charge and lacks a declared column."""
        if header is None or self.options.shares is None:
            return
        stream = self.file.stream
        refusal = find_refusal(stream, SourceSchema.from_header(f"a file of {stream.source}", header))
        if refusal is not None:
            self.options.diagnose(f"warning: {refusal}")

    def forget(self) -> None:
        """Overwrites all state but the secret, whoever else holds it: beside the runs, what they once were is
        a second look."""
        secret = self.secret
        overwrite(self.state)
        self.state.clear()
        self.state[SECRET] = secret

    def close(self) -> None:
        """With pan_private = true, what the runs were is overwritten: the next ones are loaded anew."""
        for run in self.runs:
            run.forget()
        if self.file.stream.pan_private:
            overwrite(self.state)

    @property
    def fingerprint(self) -> bytes | None:
        """Of the finished source that was charged, once one was read."""
        return self.state.get(FINGERPRINT)


@contextmanager
def opened(
    file: PipelineFile,
    options: Options,
    fingerprint: bytes | None,
    schemas: Callable[[], Iterable[SourceSchema]],
) -> Iterator[Opened]:
    """Opens a run, and closes all of it whatever happens; `fingerprint` is that of a finished source.

    `schemas` reads the headers of the source, for a run that charges something.
    """
    if file.unconfirmed:
        left = ", ".join(file.unconfirmed)
        rule = "confirm must be empty before a run"
        raise RunRefused(
            f"{file.path.name}: {rule}, got {left}: check each key, then delete it from the list"
        )
    if refusal := too_little(options.memory):
        raise RunRefused(f"{file.path.name}: {refusal}")
    for release in (*file.releases, *(each.signed for each in options.asked)):
        planned(file, release)  # what cannot be answered is refused before there is a store
    with ExitStack() as stack:
        holding = options.holding or stack.enter_context(Holding(file))
        run = Opening(file, options, holding, fingerprint, schemas).begun()
        stack.callback(run.close)
        yield run


class Opening:
    """The steps between an open store and the first tick."""

    def __init__(
        self,
        file: PipelineFile,
        options: Options,
        holding: Holding,
        fingerprint: bytes | None,
        schemas: Callable[[], Iterable[SourceSchema]],
    ) -> None:
        self.options, self.holding, self.schemas = options, holding, schemas
        self.publisher = holding.publisher(options.step)
        self.store = self.publisher.store
        self.fingerprint = fingerprint
        self.book = Book.read(self.store.acts(), file.stream.unit)
        self.file = self._with_asked(file)
        self.plans = [planned_as_charged(file, release, self.book) for release in self.file.releases]
        self.state, self.runs = self.store.state(), list[ReleaseRun]()  # nothing is refused here from now on
        unread = file.stream.source == STANDARD and file.stream.arrival == "finished"
        self.gone = self.changed_source or unread  # whether the source that was charged is
        self.able: dict[str, bool] = {}  # which releases that were ended can be built
        self.now = options.clock.now()  # when what ends at this start was wanted, unless that was before

    @property
    def running_on(self) -> RunningOn:
        """Made for each question: one that is kept would keep this opening, and the state as it was."""
        released, cut = self.store.last_released, self.options.cut
        return RunningOn(released, self._tried, gone=self.gone, cut=cut, able=self.able)

    def _with_asked(self, file: PipelineFile) -> PipelineFile:
        """The file, and beside it what was asked for and goes on, or is asked for now."""
        ended, cut = self.options.ended, self.options.cut
        whole = with_asked(file, self.book, ended=(*ended, *cut))
        reasons = [reason for name in ended for reason in end_refused(name, self.book)]
        reasons += [reason for name in cut for reason in end_refused(name, self.book, cut=True)]
        for each in self.options.asked:
            reasons += name_refused(each.release.name, whole, self.book)
            whole = replace(whole, releases=(*whole.releases, each.signed))
        if reasons:
            raise AskRefused(f"{file.path.name}: {'; '.join(reasons)}")
        return whole

    def _refuse_asked(self) -> None:
        """What is asked for now must have room beside what is open."""
        names = {each.release.name for each in self.options.asked}
        if names:
            plans = [plan for plan in self.plans if plan.name in names]
            over = self.options.over
            reasons = list(room_refused(plans, self.file, self.book, over))
            reasons += many_refused(self.options.asked, self.file, self.book, over)
            if reasons:
                raise AskRefused(f"{self.file.path.name}: {'; '.join(reasons)}")

    def begun(self) -> Opened:
        """Opens the run; where that fails, nothing stays of what was loaded for it."""
        try:
            return self._begun()
        except BaseException:
            for run in self.runs:
                run.forget()
            self._forget()
            raise

    def _forget(self) -> None:
        """Where memory can be seized, state that was loaded is overwritten."""
        if self.file.stream.pan_private:
            overwrite(self.state)

    def _begun(self) -> Opened:
        changed = edits(self.file, self.plans, self.book)
        self._refuse(changed)
        self._refuse_asked()
        drawing, charged = list(self._running()), set(self.book.entries)
        lost = self._lost()
        acts = self._budgeted(changed)
        acts += lost.again(self.book, drawing, new=False) + self._charged(changed)
        new = [name for name in self.book.open_releases() if name not in charged]
        acts += lost.again(self.book, new, new=True) + lost.entered(self.book)
        state = {**self._fresh(), **self._forgotten()}
        self._build()  # before the charge: what cannot be built is never charged
        if acts or state:
            time = self._told(self.options.clock.now())
            self.publisher.commit(acts=[replace(act, time=time) for act in acts], state=state)
        self._note_of(acts)
        self._forget()
        self.state = self.store.state()
        self._let_out()
        opened = Opened(self.file, self.options, self.publisher, self.book, self.state, self.runs)
        self.holding.begun = True
        self._tell_behind(opened)
        self.options.takes(opened.taken)
        self.options.step("opened")
        return opened

    def _tell_behind(self, opened: Opened) -> None:
        """Before anybody is told that it is open: who sends or asks would wait for long."""
        stream = self.file.stream
        if stream.arrival == "live" and self.runs:
            due = closed_tick(stream, self.options.clock.now())
            Batches(opened, self.runs).behind(self.store.tick, due)

    def _lost(self) -> Rollback:
        """What a newer copy of the store has; there is none of a store that was held since it was looked."""
        if self.holding.begun:
            return Rollback()
        return look_for_rollback(self.publisher, self.book, self.file.stream, self.options)

    def _let_out(self) -> None:
        """Writes to the sinks what they miss; nothing that was asked for."""
        self.publisher.shapes |= shapes_of(self.book.acts, describe_contributions(self.file.stream))
        asked = frozenset(name for name, entry in self.book.latest().items() if entry.asked is not None)
        for outlet in self.publisher.outlets:
            outlet.asked = asked
        self.publisher.catch_up()

    @property
    def first(self) -> int:
        """Where a new release starts: at the next tick of which nothing was seen, and after those of releases
        that have ended; of a finished file at 1."""
        if self.file.stream.arrival == "finished":
            return 1
        return max(self.newest, self.book.ended) + 1

    @property
    def newest(self) -> int:
        """The last tick of which something may have been seen."""
        return max(self.store.tick, int(self.store.marks().get(OPENED, b"0")))

    @property
    def changed_source(self) -> bool:
        known = self.state.get(FINGERPRINT)
        return known is not None and self.fingerprint is not None and known != self.fingerprint

    def _refuse(self, changed: Edits) -> None:
        reasons = list(changed.refused)
        if changed.budget and not self.options.change_budget:
            before, after = map(loss_text, changed.budget)
            reasons.append(f"budget must stay {before}, got {after}: run --change-budget records the change")
        if self.changed_source and not self.options.again:
            reasons.append("source must stay as it was charged, got a change: run --again charges it again")
        own = set(changed.new) - {each.release.name for each in self.options.asked}
        if own and (refusal := no_memory(self.plans)):  # what was charged goes on, if it can
            reasons.append(refusal)
        if not reasons and (own or self.changed_source):
            reasons += find_refusals(self.file.stream, self.schemas())
        if reasons:
            raise RunRefused(f"{self.file.path.name}: {'; '.join(reasons)}")

    def _budgeted(self, changed: Edits) -> list[Act]:
        """The budget that all charges of this start are held against."""
        if self.book.ledger is None or changed.budget:
            return [self.book.budget(self.file.stream.budget)]
        return []

    def _charged(self, changed: Edits) -> list[Act]:
        """The acts of a file that is new or was edited; a charge beyond the budget leaves no trace."""
        acts = self._cut() + [self._end(name) for name in sorted(changed.ended, key=self.store.last_released)]
        if self.changed_source:
            acts += self._editions(changed)
        asked = {plan.name: plan for plan in self.plans}
        acts += self.book.charge_columns(self.file.stream.reports)
        acts += [self.book.charge(name, asked[name], self._first_of(name)) for name in changed.new]
        for each in self.options.asked:
            check_share(self.book, each.by, each.share)
        return acts + self.book.pin(self._blocks())

    def _note_of(self, acts: Sequence[Act]) -> None:
        """The curator is told what ended where it was, though nobody may have said so."""
        for act in acts:
            if act.kind == "cut" or (act.kind == "end" and not act.body.get("runs_on")):
                self.options.note(f"release {act.body['release']} cannot run on, so it ends where it is")

    def _running(self) -> dict[str, Entry]:
        """The releases that are open, and those that were ended and run on; none that has published all."""
        asked, entries = self.running_on, self.book.open_releases()
        left = {name: entry for name, entry in entries.items() if not asked.complete(entry)}
        ended = asked.left(self.book.entries).items()
        return left | {name: entry for name, entry in ended if asked.can(entry)}

    def _first_of(self, name: str) -> int:
        """Behind a server, what is asked for begins by the moment at which its charge is seen."""
        by_clock = name in {each.release.name for each in self.options.asked}
        return max(self.first, newest_tick(self.file.stream, self._seen()) + 1 if by_clock else 0)

    def _end(self, name: str) -> Act:
        """It runs on to the tick that the clock says, if it can."""
        released, entry, stream = self.store.last_released(name), self.book.entries[name], self.file.stream
        if not self.running_on.can(entry):
            return self.book.end(name, least_of(stream, entry, released, self.newest))
        heard = self.options.moments.get(base_name(name)) or self._told(self.now)
        last = max(released, last_of(stream, entry, heard, released, self.newest))
        return self.book.end(name, last, runs_on=True)

    def _told(self, moment: int) -> int:
        """When readers hear of what is done at a moment: there and then, unless a server says otherwise."""
        return moment if self.options.departs is None else self.options.departs(moment)

    def _cut(self) -> list[Act]:
        """What has ended and cannot run on does so never again: its memory is forgotten now."""
        left = self.running_on.left(self.book.entries)
        return [self.book.cut(name) for name, entry in left.items() if not self.running_on.can(entry)]

    def _seen(self) -> int:
        """When readers see what is committed now; before all ticks where that is no matter."""
        departs, stream = self.options.departs, self.file.stream
        if departs is None or stream.arrival == "finished":
            return stream.start - stream.earliness - stream.tick
        return departs(self.options.clock.now())

    def _editions(self, changed: Edits) -> list[Act]:
        """A source that changed is another source: its releases end, and begin anew under a new name."""
        asked = {plan.name: plan for plan in self.plans}
        acts = []
        for name in [name for name in self.book.open_releases() if base_name(name) in changed.kept]:
            acts.append(self._end(name))
            base, _, edition = name.partition("@")
            acts.append(self.book.charge(f"{base}@{int(edition or 1) + 1}", asked[base], self.first))
        return acts

    def _blocks(self) -> dict[str, str]:
        used = {name for plan in self.plans for name in plan.query.lookups}
        blocks = {name: self.file.blocks[name] for name in ("stream", "source")}
        blocks |= {f"lookup.{name}": self.file.blocks[f"lookup.{name}"] for name in used}
        return blocks | {f"release.{plan.name}": plan.block for plan in self.plans}

    def _fresh(self) -> dict[str, bytes | None]:
        """What a store has from its first commit on, or gets with another source."""
        fresh: dict[str, bytes | None] = {} if SECRET in self.state else {SECRET: system_key()}
        if self.fingerprint is not None and self.state.get(FINGERPRINT) != self.fingerprint:
            fresh[FINGERPRINT] = self.fingerprint
        return fresh

    def _forgotten(self) -> dict[str, None]:
        """The runs of releases that have published all, or have ended and run on no more, are forgotten."""
        return of_others(self.state, self._running())

    def _build(self) -> None:
        """The releases that run, each where it stopped."""
        for entry in self._running().values():
            self.runs.append(self._run_of(entry))

    def _tried(self, entry: Entry) -> None:
        """Builds a run to see whether it can be built."""
        self._run_of(entry).forget()

    def _run_of(self, entry: Entry) -> ReleaseRun:
        name, noise = entry.name, self.options.noise
        plans = {plan.name: plan for plan in self.plans}
        plan = plans.get(base_name(name)) or plan_of_ended(self.file, entry, self.book)
        kind = ReleaseRun if plan.query.key is None else DiscoveredRun
        if f"run/{name}/0" in self.state:
            run = kind.load(plan, name, entry.first, self.state, noise)
        else:
            run = kind.start(plan, name, entry.first, noise)
        run.ended = entry.ended
        return run
