"""What a store owes that has taken the place of a newer one.

    kept      a charge that both histories have, and that goes on here: its ticks are drawn twice, so it is
              charged again, from its first tick, since counters that go on from an older state draw again
              for sums that reach back before the ticks which were lost
    unknown   a charge that only the lost history had: it is entered as it was
    cut       a charge that ended here, and went on there: it is entered for the ticks after its end
    replaced  all charges of another store that the same folder had: they are entered as they were

With pan_private = true the tick that is open counts like those before it: registers and tables have what came
in it, and can be handed over. What was handed over of the lost history is entered too.

Promise
    However often copies are put back, a unit has lost at most what the ledger says, as long as the witness is
    there: each history drew under charges that are all in its book, and the witness has the book of the last
    one, which by induction has those of all before it (`spent`). Where only sinks tell of another history,
    its charges are not known: then whatever is in the store or new in the file is charged again.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from streamgauge.pipeline.book import Book
from streamgauge.pipeline.options import Options
from streamgauge.pipeline.publishing import Publisher
from streamgauge.pipeline.reader import Act, Trace
from streamgauge.pipeline.spent import Spent, spent_by
from streamgauge.pipeline.store import Store
from streamgauge.pipeline.witness import RolledBack, StoreGone, Told, Unwitnessed
from streamgauge.query.settings import Stream

PAID = "rolled back"  # the act that names the traces which were paid for
NEWEST = "newest"  # the act that a store was said to be the newest copy


@dataclass(frozen=True)
class Rollback:
    """What was found: `until` is the last tick that may have been drawn elsewhere, 0 if none was."""

    until: int = 0
    traces: tuple[Trace, ...] = ()
    spent: tuple[Spent, ...] | None = None  # all charges of the lost history, where they are known
    own: tuple[Spent, ...] = ()
    replaced: tuple[Told, ...] = ()  # other stores that the same folder had
    newest: bool = False
    open: int = 0  # how many ticks after the last one were seen, where that can be handed over

    def again(self, book: Book, names: Iterable[str], *, new: bool) -> list[Act]:
        """Charges releases anew that are, or may have been, drawn from elsewhere."""
        if not self.until or (new and self.spent is not None):
            return []
        entries = [book.entries[name] for name in names]
        drawn = [entry for entry in entries if entry.column is None]  # reports are drawn by devices, once
        return [book.again(entry.name, self.until) for entry in drawn if entry.first <= self.until]

    def entered(self, book: Book) -> list[Act]:
        """The charges of the lost history that the book does not have, and the act that says why."""
        drawn = [each.drawn_by(self.until) for each in self.spent or () if self.until]
        for told in self.replaced:
            drawn += [each.drawn_by(told.trace.tick + self.open) for each in told.spent or ()]
        missing = [self._missing(each) for each in drawn]
        acts = [book.lost(each) for each in missing if each is not None and not each.empty]
        traces = [*self.traces, *(told.trace for told in self.replaced)]
        if traces or self.until:
            until = max([self.until, *(trace.tick for trace in traces)])
            paid = {"until": until, "traces": [list(each) for each in traces]}
            acts.append(book.note(PAID, paid | self._handed_over()))
        if self.newest:
            acts.append(book.note(NEWEST, {}))
        return acts

    def _missing(self, charged: Spent) -> Spent | None:
        """What of a charge is not in the book."""
        known = next((each for each in self.own if each.id == charged.id), None)
        if known is None:
            return charged
        if known.last is None or (charged.last is not None and charged.last <= known.last):
            return None
        seen = tuple(each for each in charged.intrusions if each not in known.intrusions)
        return replace(charged, id=f"{charged.id}+{known.last + 1}", first=known.last + 1, intrusions=seen)

    def _handed_over(self) -> dict[str, Any]:
        """Of charges that both histories have, the intrusions that only the lost one had."""
        own = {each.id: each.intrusions for each in self.own}
        both = [each for each in self.spent or () if each.id in own]
        lost = {each.release: [one for one in each.intrusions if one not in own[each.id]] for each in both}
        found = {name: intrusions for name, intrusions in lost.items() if intrusions}
        return {"intrusions": found} if found else {}


def look_for_rollback(publisher: Publisher, book: Book, stream: Stream, options: Options) -> Rollback:
    """Refuses a store that is not the newest, unless the curator says so and pays."""
    store, witness = publisher.store, publisher.witness
    sinks, seen, others = publisher.resume(), witness.traces(), witness.others()
    gone = witness.missing(store)
    paid = {Trace(*told) for act in book.acts if act.kind == PAID for told in act.body["traces"]}
    unknown = _list_unknown(store, [*seen, *sinks], paid)
    replaced = [each for each in others if _drawn(each) and not any(map(each.trace.matches, paid))]
    _refuse(publisher, options, unknown, [each.trace for each in replaced], gone=gone)
    blind = gone and (options.rolled_back or not options.newest)
    if not unknown and not replaced and not blind:
        return Rollback(newest=gone)
    ticks = [store.tick, *(trace.tick for trace in unknown), *([_now(stream, options)] if blind else [])]
    known = witness.spent() if set(seen) & set(unknown) else None
    opened = int(stream.pan_private)
    return Rollback(
        until=_at_most(stream, max(ticks) + opened) if unknown or blind else 0,
        traces=tuple(unknown),
        spent=known,
        own=spent_by(store.told_acts()),
        replaced=tuple(replaced),
        newest=gone and not blind,
        open=opened,
    )


def _list_unknown(store: Store, traces: Sequence[Trace], paid: Collection[Trace]) -> list[Trace]:
    """Return the traces of histories that are neither the store's nor paid for, each history once.

    The witness has whole chains and comes first; a sink has the beginning of one.
    """
    unknown: list[Trace] = []
    for trace in traces:
        if not store.knows(trace) and not any(map(trace.matches, (*paid, *unknown))):
            unknown.append(trace)
    return sorted(unknown)


def _refuse(
    publisher: Publisher, options: Options, unknown: list[Trace], replaced: list[Trace], *, gone: bool
) -> None:
    """Unless the curator said what is needed."""
    store, witness = publisher.store, publisher.witness
    if unknown and not options.rolled_back:
        raise RolledBack(store, unknown)
    if replaced and not options.rolled_back:
        raise StoreGone(store, replaced)
    if gone and not (options.newest or options.rolled_back):
        raise Unwitnessed(store, witness.path)


def _drawn(told: Told) -> bool:
    """Whether anything came out of a store: a tick, or what was handed over before the first had ended.

    Who looked at its memory in its first tick, unannounced, has had the one look of the promise: what comes
    after has draws of its own, as after `begin_anew`, and tables whose look and releases add up.
    """
    return bool(told.trace.tick) or any(each.intrusions for each in told.spent or ())


def _now(stream: Stream, options: Options) -> int:
    """The last tick that any copy can have published by now."""
    if stream.arrival == "finished" and stream.ticks is not None:
        return stream.ticks
    passed = (options.clock.now() - stream.start) // stream.tick
    return max(0, _at_most(stream, passed))


def _at_most(stream: Stream, tick: int) -> int:
    return tick if stream.ticks is None else min(tick, stream.ticks)
