"""Charges that are due when a store has replaced a newer one.

    recharged  a charge that both histories have and that continues here. Its ticks are drawn twice, so it is charged
               again from its first tick: counters that continue from an older state draw again for sums that reach
               back before the lost ticks
    unknown    a charge that only the lost history had: it is recorded as it was
    cut        a charge that ended here and continued there: it is recorded for the ticks after its end
    replaced   all charges of another store that the same folder had: they are recorded as they were

With pan_private = true the open tick counts like those before it: registers and tables have its events, and can be
exported. Intrusions into the lost history are recorded too.

Promise
    However often copies are restored, a unit has lost at most the loss in the ledger, if the rollback guard is there.
    Proof: each history drew under charges that are all in its ledger, and later ticks with its own draws: a run
    that continues from a copy replaces the saved noise of later ticks first (`redraw_future_noise`), in the commit that
    enters the charges. So losses of histories add up. The guard has the ledger of the last history,
    which by induction has those of all before it (`lost_charges`). If only sinks have traces of another history, its
    charges are unknown. Then everything in the store or new in the file is charged again.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from streamgauge.config.settings import Stream
from streamgauge.runtime.ledger.log import LedgerLog
from streamgauge.runtime.options import Options
from streamgauge.runtime.publisher import Publisher
from streamgauge.runtime.ticks import clamp_tick
from streamgauge.store.reader import LedgerEntry, Trace
from streamgauge.store.rollback_guard import (
    GuardEntry,
    RecordedCharge,
    build_missing_guard_error,
    build_replaced_error,
    build_rollback_error,
    collect_charges,
)
from streamgauge.store.store import Store

ROLLBACK_KIND = "rollback"  # the ledger entry with the traces that were paid for
TRUST_KIND = "trust_store"  # the ledger entry that the curator trusts a store


@dataclass(frozen=True)
class Rollback:
    """A rollback of the store.

    `last_drawn_tick` is the last tick that may have been drawn elsewhere, 0 if none was.
    """

    last_drawn_tick: int = 0
    traces: tuple[Trace, ...] = ()
    lost_charges: tuple[RecordedCharge, ...] | None = None  # all charges of the lost history, if known
    own_charges: tuple[RecordedCharge, ...] = ()
    replaced_stores: tuple[GuardEntry, ...] = ()  # other stores that the same folder had
    is_trusted: bool = False
    open_ticks: int = 0  # ticks after the last one whose events can be exported

    def recharge(self, ledger_log: LedgerLog, names: Iterable[str], *, new: bool) -> list[LedgerEntry]:
        """Charge releases again that were, or may have been, drawn elsewhere."""
        if not self.last_drawn_tick or (new and self.lost_charges is not None):
            return []
        last, entries = self.last_drawn_tick, [ledger_log.releases[name] for name in names]
        drawn = [entry for entry in entries if entry.column is None]  # reports are drawn by devices, once
        return [ledger_log.recharge(entry.name, last) for entry in drawn if entry.first <= last]

    def enter_lost_charges(self, ledger_log: LedgerLog) -> list[LedgerEntry]:
        """Return entries for charges of lost histories that the ledger lacks.

        An entry with the cause follows them.
        """
        drawn = [each.cap_at_tick(self.last_drawn_tick) for each in self.lost_charges or () if self.last_drawn_tick]
        for store in self.replaced_stores:
            drawn += [each.cap_at_tick(store.trace.tick + self.open_ticks) for each in store.charges or ()]
        missing = [self._find_missing(each) for each in drawn]
        acts = [ledger_log.enter_lost_charge(each) for each in missing if each is not None and not each.is_empty]
        traces = [*self.traces, *(store.trace for store in self.replaced_stores)]
        if traces or self.last_drawn_tick:
            until = max([self.last_drawn_tick, *(trace.tick for trace in traces)])
            paid = {"until_tick": until, "traces": [list(each) for each in traces]}
            acts.append(ledger_log.note(ROLLBACK_KIND, paid | self._find_lost_intrusions()))
        if self.is_trusted:
            acts.append(ledger_log.note(TRUST_KIND, {}))
        return acts

    def _find_missing(self, charged: RecordedCharge) -> RecordedCharge | None:
        """Return the part of a charge that the ledger lacks."""
        known = next((each for each in self.own_charges if each.id == charged.id), None)
        if known is None:
            return charged
        if known.last is None or (charged.last is not None and charged.last <= known.last):
            return None
        new = tuple(each for each in charged.intrusions if each not in known.intrusions)
        return replace(charged, id=f"{charged.id}+{known.last + 1}", first=known.last + 1, intrusions=new)

    def _find_lost_intrusions(self) -> dict[str, Any]:
        """Return the intrusions that only the lost history had, of charges that both have."""
        own = {each.id: each.intrusions for each in self.own_charges}
        both = [each for each in self.lost_charges or () if each.id in own]
        lost = {each.release: [one for one in each.intrusions if one not in own[each.id]] for each in both}
        found = {name: intrusions for name, intrusions in lost.items() if intrusions}
        return {"intrusions": found} if found else {}


def find_rollback(publisher: Publisher, ledger_log: LedgerLog, stream: Stream, options: Options) -> Rollback:
    """Reject a store that is not the newest, unless the curator accepts it and pays."""
    store, guard = publisher.store, publisher.rollback_guard
    sinks, recorded, others = publisher.resume(), guard.traces(), guard.other_stores()
    missing = guard.is_missing(store)
    entries = [entry for entry in ledger_log.ledger_entries if entry.kind == ROLLBACK_KIND]
    paid = {Trace(*trace) for entry in entries for trace in entry.body["traces"]}
    unknown = _list_unknown(store, [*recorded, *sinks], paid)
    replaced = [each for each in others if _has_output(each) and not any(map(each.trace.matches, paid))]
    _check_options(publisher, options, unknown, [each.trace for each in replaced], missing=missing)
    blind = missing and (options.accept_rollback or not options.trust_store)
    if not unknown and not replaced and not blind:
        return Rollback(is_trusted=missing)
    ticks = [store.tick, *(trace.tick for trace in unknown), *([_find_current_tick(stream, options)] if blind else [])]
    known = guard.charges() if set(recorded) & set(unknown) else None
    opened = int(stream.pan_private)
    return Rollback(
        last_drawn_tick=clamp_tick(stream, max(ticks) + opened) if unknown or blind else 0,
        traces=tuple(unknown),
        lost_charges=known,
        own_charges=collect_charges(store.chained_entries()),
        replaced_stores=tuple(replaced),
        is_trusted=missing and not blind,
        open_ticks=opened,
    )


def _list_unknown(store: Store, traces: Sequence[Trace], paid: Collection[Trace]) -> list[Trace]:
    """Return traces that are neither the store's nor paid for, one per history.

    The rollback guard has whole chains and comes first. A sink has the beginning of one.
    """
    unknown: list[Trace] = []
    for trace in traces:
        if not store.knows(trace) and not any(map(trace.matches, (*paid, *unknown))):
            unknown.append(trace)
    return sorted(unknown)


def _check_options(
    publisher: Publisher, options: Options, unknown: list[Trace], replaced: list[Trace], *, missing: bool
) -> None:
    """Reject a store unless the curator gave the option that it needs."""
    store = publisher.store
    if unknown and not options.accept_rollback:
        raise build_rollback_error(store, unknown)
    if replaced and not options.accept_rollback:
        raise build_replaced_error(store, replaced)
    if missing and not (options.trust_store or options.accept_rollback):
        raise build_missing_guard_error(store, publisher.rollback_guard.path)


def _has_output(entry: GuardEntry) -> bool:
    """Return whether a store published a tick, or exported its state before that.

    An unannounced look in its first tick was the one look of the promise. Later states have their own draws, as
    after `rerandomize`, and tables whose look and releases add up.
    """
    return bool(entry.trace.tick) or any(each.intrusions for each in entry.charges or ())


def _find_current_tick(stream: Stream, options: Options) -> int:
    """Return the last tick that any copy can have published by now."""
    if stream.mode == "batch" and stream.ticks is not None:
        return stream.ticks
    passed = (options.clock.now() - stream.start) // stream.tick
    return clamp_tick(stream, passed)
