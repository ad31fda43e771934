"""Asking for a release: its plan, before anybody is charged.

Privacy
    What is said of a release that is asked for, a refusal too, follows from declarations, the ledger and the
    clock. No event is read, so nothing here can tell of one, however often and cleverly it is asked.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from streamgauge.pipeline.as_charged import planned_as_charged
from streamgauge.pipeline.asked_releases import (
    AskedRelease,
    many_refused,
    name_refused,
    never_asked,
    release_of_json,
    restored,
    room_refused,
    with_asked,
)
from streamgauge.pipeline.book import Book, block_hash
from streamgauge.pipeline.gaussian_hints import gaussian_hints
from streamgauge.pipeline.planning import PlannedRelease, first_tick, told_of
from streamgauge.pipeline.reading import read_book
from streamgauge.pipeline.room import no_room
from streamgauge.pipeline.shares import check_share, share_left
from streamgauge.pipeline.words import exceeded_text
from streamgauge.privacy import BudgetExceeded, Loss, Remainder
from streamgauge.query.local_parts import is_unpriced
from streamgauge.query.planner import Planned, planned
from streamgauge.query.settings import PipelineFile, Release
from streamgauge.query.toml_keys import BadFile

__all__ = [
    "AskedRelease",
    "PlannedAsk",
    "asked_before",
    "plan_asked",
    "refused_in_turn",
    "release_of_json",
    "share_left",
    "with_asked",
    "worded",
]

LONGEST = {"title": 100, "description": 1000, "sql": 10_000}  # characters: the book keeps them for ever
SAME = ("loss", "delta", "share", "title", "description")  # beside what the block has


@dataclass(frozen=True)
class PlannedAsk:
    """What a release would cost and how wrong it would be, and why it would be refused, if it would."""

    plan: PlannedRelease | None  # none where the SQL cannot be answered
    refused: tuple[str, ...]
    left_after: Loss | Remainder | None  # of the budget, from the tick on where it would begin
    share_left_after: Loss | Remainder | None  # of the share of who asks


def plan_asked(
    file: PipelineFile,
    asked: AskedRelease,
    share: Fraction | None = None,
    *,
    book: Book | None = None,
    first: int | None = None,
    over: Collection[str] = (),
) -> PlannedAsk:
    """Plans a release that is asked for, beside all that are charged; `share` is of who asks.

    While a run goes on, its server knows `book` and `first` by the clock: in the store the tick that is open
    shows when something has come; and which of the releases that run on are `over`, for all to see.
    """
    book = read_book(file.folder, file.stream) if book is None else book.copy()
    first = first_tick(file) if first is None else first
    share = asked.share if share is None else share
    plan, refused = _judged(file, replace(asked, share=share), book, first, over)
    left = None if book.ledger is None else book.ledger.remainder(first)
    hints = {} if plan is None or refused else gaussian_hints([plan], book)
    told = None if plan is None else told_of(plan, book, first, hints.get(plan.name, ""))
    return PlannedAsk(told, tuple(refused), left, share_left(book, asked.by, share, first))


def refused_in_turn(
    file: PipelineFile, asked: Sequence[AskedRelease], book: Book, first: int, over: Collection[str] = ()
) -> list[tuple[str, ...]]:
    """Why each would be refused if they were taken in one after the other; nothing where none would."""
    found = []
    for each in asked:
        then = book.copy()
        plan, refused = _judged(file, each, then, first, over)
        if plan is not None and not refused:
            then.pin({f"release.{plan.name}": plan.block})
            book = then
        found.append(tuple(refused))
    return found


def _judged(
    file: PipelineFile, asked: AskedRelease, book: Book, first: int, over: Collection[str]
) -> tuple[Planned | None, list[str]]:
    """Charges a release in the book, which is a copy, unless something is against it."""
    whole = with_asked(file, book)
    refused = [*name_refused(asked.release.name, whole, book), *never_asked(file.stream)]
    refused += many_refused([asked], file, book, over)
    plan: Planned | None = None
    try:
        plan = planned(whole, asked.signed)
    except ValueError as refusal:
        refused.append(str(refusal))
    if plan is not None and not refused:
        refused += [f"{file.path.name}: {reason}" for reason in room_refused([plan], file, book, over)]
    if plan is not None and not refused:
        refused += _charged(whole, plan, book, first, asked.share)
    return plan, refused


def worded(release: Release) -> Release:
    """A release whose words are short enough to be asked for; raises BadFile."""
    for word, most in LONGEST.items():
        if (length := len(getattr(release, word))) > most:
            rule = f"release.{release.name}.{word} must be at most {most} characters where it is asked for"
            raise BadFile(f"{rule}, got {length}")
    return release


def asked_before(file: PipelineFile, asked: AskedRelease, book: Book) -> PlannedRelease | None:
    """The release as it was charged, if the same one is asked for that is open, and by the same analyst."""
    entry = book.latest().get(asked.release.name)
    if entry is None or entry.ended is not None or entry.asked != asked.by:
        return None
    known, again = restored(entry, book), asked.signed
    if entry.column is not None and is_unpriced(again.loss):
        again = replace(again, loss=entry.loss, column=entry.column)
    same = all(getattr(known, key) == getattr(again, key) for key in SAME)
    try:
        plan = planned_as_charged(with_asked(file, book), again, book)
    except ValueError:
        return None
    return told_of(plan, book, entry.first) if same and block_hash(plan.block) == entry.block else None


def _charged(file: PipelineFile, plan: Planned, book: Book, first: int, share: Fraction | None) -> list[str]:
    """Does to a copy of the book what a run would do; tells what it would not."""
    if reason := no_room(file.stream, [plan]):
        return [f"{file.path.name}: {reason}"]
    if book.ledger is None:
        book.budget(file.stream.budget)
    try:
        book.charge_columns(file.stream.reports)
        book.charge(plan.name, plan, first)
        check_share(book, str(plan.release.asked), share)
    except ValueError as refusal:
        told = exceeded_text(refusal) if isinstance(refusal, BudgetExceeded) else str(refusal)
        notes = ": ".join(getattr(refusal, "__notes__", [f"release {plan.name}"]))
        return [f"{file.path.name}: {notes}: {told}"]
    return []
