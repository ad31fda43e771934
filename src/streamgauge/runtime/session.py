"""An open run, and its start: lock, key, store, edits, charges, sinks.

Everything that can be refused is refused here, before any charge. The reasons are in the declarations or in the store,
never in the data. Charges are committed before any noise is drawn. Releases are built before their charge is
committed, so a charged release can run.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

from streamgauge.config.errors import InvalidReleaseError
from streamgauge.config.settings import PipelineFile
from streamgauge.config.stream import ARRIVAL_COLUMN, describe_contributions
from streamgauge.noise.entropy import read_system_key
from streamgauge.plan.planner import ReleasePlan, plan_release
from streamgauge.records.source_schema import SourceSchema, find_refusal, find_refusals, select_unread
from streamgauge.releases.release import TickRelease
from streamgauge.releases.schema import base_name
from streamgauge.runtime.adhoc.releases import (
    DrainingReleases,
    add_adhoc_releases,
    compute_last_tick,
    find_end_refusals,
    find_last_row_tick,
    min_last_tick,
    plan_ended_release,
)
from streamgauge.runtime.commands.apply import ChangeMeasures, apply_due_commands
from streamgauge.runtime.edits import Edits, find_edits, plan_as_charged
from streamgauge.runtime.format import loss_text
from streamgauge.runtime.ledger.log import ChargedRelease, LedgerLog
from streamgauge.runtime.options import Options, RecordShares
from streamgauge.runtime.plan.limits import find_engine_refusal, find_memory_refusal
from streamgauge.runtime.publisher import Publisher, build_schemas
from streamgauge.runtime.release_run import Batches, ReleaseRun, build_removals, state_name
from streamgauge.runtime.resources import acquire_lock, open_publisher
from streamgauge.runtime.rollback import find_rollback
from streamgauge.runtime.ticks import OPENED_MARK, ReleaseSpans, closed_tick, find_opened_tick
from streamgauge.store.drivers import has_store
from streamgauge.store.encryption import SECRET_PART, overwrite
from streamgauge.store.store import LedgerEntry

FINGERPRINT_PART = "fingerprint"


class RunRefusedError(ValueError):
    """A run that must not start. The message gives the reason and the remedy."""


@dataclass
class RunSession:
    """A run that is ready for its next tick."""

    file: PipelineFile
    options: Options
    publisher: Publisher
    ledger_log: LedgerLog
    state: dict[str, bytes]  # at the start of the run
    runs: list[ReleaseRun]
    ticks: Iterator[list[TickRelease]] = field(default_factory=lambda: iter(()))  # by commit, after publication

    @property
    def secret(self) -> bytes:
        """Key of the user hashes. Drawn once per store."""
        return self.state[SECRET_PART]

    def __post_init__(self) -> None:
        self.spans = self._find_spans()  # tick ranges of the releases, for any thread
        self.endable_releases = frozenset[str]()  # open ad hoc releases
        stream = self.file.stream
        self.shares = None if stream.pan_private else RecordShares(stream, self.options.diagnose)

    def _find_spans(self) -> ReleaseSpans:
        """Return the tick ranges of the releases, by their plans.

        Every record has a time, so the arrival column does not count as a column that a release reads.
        """
        return ReleaseSpans.from_tuples(
            (run.first, run.last_tick, run.plan.query.columns - {ARRIVAL_COLUMN}) for run in self.runs
        )

    def adopt_ledger(self, ledger_log: LedgerLog) -> None:
        """Continue with a ledger whose new entries are committed. Ad hoc releases are never written to sinks."""
        self.ledger_log, self.spans = ledger_log, self._find_spans()
        entries = ledger_log.latest_releases()
        adhoc = frozenset(name for name, entry in entries.items() if entry.requested_by is not None)
        self.endable_releases = frozenset(name for name in adhoc if entries[name].end_tick is None)
        new = [entry for entry in ledger_log.ledger_entries if entry.body.get("release") not in self.publisher.schemas]
        self.publisher.schemas |= build_schemas(new, describe_contributions(self.file.stream))
        for cursor in self.publisher.sink_cursors:
            cursor.adhoc_releases = adhoc

    def build_opened_marks(self, opened_tick: int) -> dict[str, bytes]:
        """Return the mark of the last tick that an event may have been counted in."""
        return {OPENED_MARK: str(opened_tick).encode()} if self.file.stream.mode == "streaming" else {}

    def apply_commands(self, change_measures: ChangeMeasures, opened_tick: int = 0) -> bool:
        """Apply the due commands; return whether there were any. No release is added if `change_measures` fails."""
        queue = self.options.commands
        return queue is not None and apply_due_commands(self, queue, opened_tick, change_measures)

    def wait_for_commands(self) -> bool:
        """Wait until commands are due; return False if none can come."""
        queue = self.options.commands
        return queue is not None and queue.wait(self.options.stop)

    def warn_of_header(self, header: Sequence[str] | None) -> None:
        """Warn the curator if a file after the charge lacks a declared column."""
        if header is None or self.shares is None:
            return
        stream = self.file.stream
        refusal = find_refusal(stream, SourceSchema.from_header(f"a file of {stream.source}", header))
        if refusal is not None:
            self.options.diagnose(f"warning: {refusal}")

    def forget(self) -> None:
        """Overwrite all state but the secret, in place.

        Next to the current runs, their earlier state would be a second look at the same registers.
        """
        secret = self.secret
        overwrite(self.state)
        self.state.clear()
        self.state[SECRET_PART] = secret

    def close(self) -> None:
        """Overwrite the state of the runs with pan_private = true. Report the shares of records."""
        for run in self.runs:
            run.forget()
        if self.file.stream.pan_private:
            overwrite(self.state)
        if self.shares is not None:
            self.shares.report()

    @property
    def fingerprint(self) -> bytes | None:
        """Fingerprint of the charged batch source, once one was read."""
        return self.state.get(FINGERPRINT_PART)


@contextmanager
def start_session(
    file: PipelineFile, options: Options, fingerprint: bytes | None, schemas: Callable[[], Iterable[SourceSchema]]
) -> Iterator[RunSession]:
    """Open a run, and close all of it on every exit.

    Args:
        fingerprint: the fingerprint of a batch source.
        schemas: reads the headers of the source, for a run that charges something.
    """
    if file.unconfirmed_keys:
        left = ", ".join(file.unconfirmed_keys)
        rule = "confirm must be empty before a run"
        raise RunRefusedError(f"{file.path.name}: {rule}, got {left}: check each key, then delete it from the list")
    if refusal := find_engine_refusal(options.memory):
        raise RunRefusedError(f"{file.path.name}: {refusal}")
    for release in () if has_store(file) else file.releases:
        plan_release(file, release)  # refuses an unanswerable query before a store is created
    with ExitStack() as stack:
        acquire_lock(file, stack)
        publisher = open_publisher(file, options.step, stack)
        run = options.find_class(SessionBuilder)(file, options, publisher, fingerprint, schemas).build()
        stack.callback(run.close)
        yield run


class SessionBuilder:
    """The steps between an open store and the first tick."""

    def __init__(
        self,
        file: PipelineFile,
        options: Options,
        publisher: Publisher,
        fingerprint: bytes | None,
        schemas: Callable[[], Iterable[SourceSchema]],
    ) -> None:
        self.options, self.publisher, self.schemas = options, publisher, schemas
        self.store = self.publisher.store
        self.fingerprint = fingerprint
        self.ledger_log = LedgerLog.read(self.store.ledger_entries(), file.stream.unit)
        self.file = self._add_adhoc_releases(file)
        self.plans = self._plan_releases()
        self.state, self.runs = self.store.state(), list[ReleaseRun]()  # no refusal in __init__ after this line
        self.is_source_missing = self.has_changed_source or file.stream.is_read_once  # if the charged source is gone
        self.buildable: dict[str, bool] = {}  # by ended release: True if it can be built
        self.start_time = options.clock.now()  # time of the end commands of this start that have none of their own

    def _plan_releases(self) -> list[ReleasePlan]:
        """Return the plans of all releases, as charged. An edit that is refused may be the reason that one has none."""
        try:
            return [plan_as_charged(self.file, release, self.ledger_log) for release in self.file.releases]
        except InvalidReleaseError:
            if reasons := find_edits(self.file, [], self.ledger_log).refusals:
                raise RunRefusedError(f"{self.file.path.name}: {'; '.join(reasons)}") from None
            raise

    @property
    def draining_releases(self) -> DrainingReleases:
        """Ended releases that still run.

        Built on each access: a stored one would keep this builder alive, and with it the state at the start.
        """
        released, forced = self.store.last_released, self.options.force_end_releases
        return DrainingReleases(
            released, lambda entry: self.build_run(entry).forget(), self.is_source_missing, forced, self.buildable
        )

    def _add_adhoc_releases(self, file: PipelineFile) -> PipelineFile:
        """Return the file with its running ad hoc releases."""
        ended, forced = self.options.end_releases, self.options.force_end_releases
        whole = add_adhoc_releases(file, self.ledger_log, ended=(*ended, *forced))
        reasons = [reason for name in ended for reason in find_end_refusals(name, self.ledger_log)]
        reasons += [reason for name in forced for reason in find_end_refusals(name, self.ledger_log, force=True)]
        if reasons:
            raise InvalidReleaseError(f"{file.path.name}: {'; '.join(reasons)}")
        return whole

    def build(self) -> RunSession:
        """Open the run. On failure, clear everything that was loaded for it."""
        try:
            return self._build_session()
        except BaseException:
            for run in self.runs:
                run.forget()
            self._forget()
            raise

    def _forget(self) -> None:
        """Overwrite the loaded state if memory can be seized."""
        if self.file.stream.pan_private:
            overwrite(self.state)

    def _build_session(self) -> RunSession:
        changed = find_edits(self.file, self.plans, self.ledger_log)
        self._check_edits(changed)
        drawing, charged = list(self._find_running()), set(self.ledger_log.releases)
        lost = find_rollback(self.publisher, self.ledger_log, self.file.stream, self.options)
        is_declared = self.ledger_log.ledger is not None and not changed.budget
        acts = [] if is_declared else [self.ledger_log.declare_budget(self.file.stream.budget)]
        acts += lost.recharge(self.ledger_log, drawing, new=False) + self._charge_releases(changed)
        new = [name for name in self.ledger_log.open_releases() if name not in charged]
        acts += lost.recharge(self.ledger_log, new, new=True) + lost.enter_lost_charges(self.ledger_log)
        state = {**self._build_new_state(), **build_removals(self.state, self._find_running())}
        for entry in self._find_running().values():  # before the charge, so that a charged release can be built
            self.runs.append(self.build_run(entry))
        if lost.last_drawn_tick:
            state |= self._redraw_future_noise()
        if acts or state:
            time = self.options.clock.now()
            self.publisher.commit(acts=[replace(act, time=time) for act in acts], state=state)
        for act in acts:  # a release that cannot run on ends at once even if no command requested it
            if act.kind == "force_end" or (act.kind == "end" and not act.body.get("is_draining")):
                self.options.note(f"release {act.body['release']} cannot run on, so it ends where it is")
        self._forget()
        self.state = self.store.state()
        opened = RunSession(self.file, self.options, self.publisher, self.ledger_log, self.state, self.runs)
        opened.adopt_ledger(self.ledger_log)
        self.publisher.catch_up()
        self._report_backlog(opened)
        self.options.step("session_opened")
        return opened

    def _redraw_future_noise(self) -> dict[str, bytes | None]:
        """Redraw the noise of resumed releases that the lost history may have published later ticks with.

        Returns their state. It is committed with the charges of the rollback, so no later start sees the old draws.
        """
        state: dict[str, bytes | None] = {}
        for run in self.runs:
            if state_name(run.name, 0) in self.state and not self.file.stream.pan_private:
                try:
                    run.redraw_future_noise()
                except TypeError as refusal:
                    rule = f"release {run.name} must end before a rollback is accepted"
                    raise RunRefusedError(f"{self.file.path.name}: {rule}: {refusal}") from None
                state |= run.save_state()
        return state

    def _report_backlog(self, session: RunSession) -> None:
        """Report a backlog before the run is announced as open.

        Clients that send events or requests would wait for long.
        """
        stream = self.file.stream
        if stream.mode == "streaming" and self.runs:
            due = closed_tick(stream, self.options.clock.now())
            Batches(session, self.runs).report_backlog(self.store.tick, due)

    @property
    def first_new_tick(self) -> int:
        """First tick of a new release; 1 for a batch file.

        It is the next tick that no event can have been counted in, after the ticks of ended releases.
        """
        if self.file.stream.mode == "batch":
            return 1
        return max(find_opened_tick(self.store), self.ledger_log.last_end_tick) + 1

    @property
    def has_changed_source(self) -> bool:
        known = self.state.get(FINGERPRINT_PART)
        return known is not None and self.fingerprint is not None and known != self.fingerprint

    def _check_edits(self, changed: Edits) -> None:
        reasons = list(changed.refusals)
        if changed.budget and not self.options.change_budget:
            before, after = map(loss_text, changed.budget)
            reasons.append(f"budget must stay {before}, got {after}: run --change-budget records the change")
        if self.has_changed_source and not self.options.recharge_source:
            reasons.append("source must stay as it was charged, got a change: run --recharge-source charges it again")
        if changed.new_releases and (
            refusal := find_memory_refusal(self.plans)
        ):  # charged releases continue if they can
            reasons.append(refusal)
        if not reasons and (changed.new_releases or changed.new_columns or self.has_changed_source):
            has_read = self.file.stream.mode == "streaming" and bool(self.ledger_log.releases)
            reasons += find_refusals(self.file.stream, select_unread(self.schemas(), has_read=has_read))
        if reasons:
            raise RunRefusedError(f"{self.file.path.name}: {'; '.join(reasons)}")

    def _charge_releases(self, changed: Edits) -> list[LedgerEntry]:
        """Return the ledger entries of a new or edited file.

        A charge that exceeds the budget leaves no trace.
        """
        log, plans = self.ledger_log, {plan.name: plan for plan in self.plans}
        ended = sorted(changed.ended_releases, key=self.store.last_released)
        acts = self._stop_draining() + [self.end_release(name) for name in ended]
        if self.has_changed_source:
            acts += self._charge_editions(changed)
        acts += log.charge_columns(self.file.stream.reports)
        acts += [log.charge(name, plans[name], self.first_new_tick) for name in changed.new_releases]
        return acts + self.ledger_log.pin(self._collect_blocks(), changed.columns)

    def _find_running(self) -> dict[str, ChargedRelease]:
        """Return the open releases and the ended ones that still run.

        Releases whose last tick is published are excluded.
        """
        draining, entries = self.draining_releases, self.ledger_log.open_releases()
        left = {name: entry for name, entry in entries.items() if not draining.is_complete(entry)}
        ended = draining.find_incomplete(self.ledger_log.releases).items()
        return left | {name: entry for name, entry in ended if draining.can_drain(entry)}

    def end_release(self, name: str) -> LedgerEntry:
        """End a release at the tick that the clock gives, or at once if it cannot run on."""
        released, entry, stream = self.store.last_released(name), self.ledger_log.releases[name], self.file.stream
        opened = find_opened_tick(self.store)
        if not self.draining_releases.can_drain(entry):
            return self.ledger_log.end(name, min_last_tick(stream, entry, released, opened))
        last = max(released, compute_last_tick(stream, entry, self.start_time, released, opened))
        row = find_last_row_tick(stream, entry, self.ledger_log, last)
        return self.ledger_log.end(name, last, is_draining=True, last_row_tick=row)

    def _stop_draining(self) -> list[LedgerEntry]:
        """Stop ended releases that cannot run on.

        Their state is removed now, and they never run again.
        """
        draining = self.draining_releases
        left = draining.find_incomplete(self.ledger_log.releases).items()
        return [self.ledger_log.stop_draining(name) for name, entry in left if not draining.can_drain(entry)]

    def _charge_editions(self, changed: Edits) -> list[LedgerEntry]:
        """End the releases of a changed source, and charge them again under new names.

        A changed source counts as another source.
        """
        plans, acts = {plan.name: plan for plan in self.plans}, []
        for name in [name for name in self.ledger_log.open_releases() if base_name(name) in changed.continued_releases]:
            acts.append(self.end_release(name))
            base, _, edition = name.partition("@")
            acts.append(self.ledger_log.charge(f"{base}@{int(edition or 1) + 1}", plans[base], self.first_new_tick))
        return acts

    def _collect_blocks(self) -> dict[str, str]:
        used = {name for plan in self.plans for name in plan.query.lookups}
        blocks = {name: self.file.blocks[name] for name in ("stream", "source")}
        blocks |= {f"lookup.{name}": self.file.blocks[f"lookup.{name}"] for name in used}
        return blocks | {f"release.{plan.name}": plan.block for plan in self.plans}

    def _build_new_state(self) -> dict[str, bytes | None]:
        """Return the state parts that are written for a new store or a changed source."""
        fresh: dict[str, bytes | None] = {} if SECRET_PART in self.state else {SECRET_PART: read_system_key()}
        if self.fingerprint is not None and self.state.get(FINGERPRINT_PART) != self.fingerprint:
            fresh[FINGERPRINT_PART] = self.fingerprint
        return fresh

    def build_run(self, entry: ChargedRelease) -> ReleaseRun:
        """Build the run of a release at its next tick."""
        name, noise = entry.name, self.options.noise
        plans = {plan.name: plan for plan in self.plans}
        plan = plans.get(base_name(name)) or plan_ended_release(self.file, entry, self.ledger_log)
        kind = self.options.find_class(ReleaseRun)
        if f"run/{name}/0" in self.state:
            run = kind.load(plan, name, entry.first, self.state, noise)
        else:
            run = kind.start(plan, name, entry.first, noise)
        run.end_tick = entry.drain_tick
        return run
