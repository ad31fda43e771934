"""What the ledger says to those who share a turn, before the run is opened with them.

Ends come first, as in the run, since they give budget back; then what is asked for, one after the other. The
book is the store's: readers see it later, so somebody may ask for what is done already. An end that was
entered before is no refusal, for its answer may have been lost on its way.

**Privacy.** All of it follows from declarations, the ledger and the clock.
"""

from collections.abc import Callable, Collection, Sequence

from streamgauge.pipeline.asked import refused_in_turn
from streamgauge.pipeline.asked_releases import end_refused
from streamgauge.pipeline.book import Book
from streamgauge.pipeline.by_clock import first_by_clock
from streamgauge.pipeline.reading import read_opened
from streamgauge.pipeline.running_on import last_of
from streamgauge.query.settings import PipelineFile
from streamgauge.server.turns import Verdict, Wish


def verdicts(
    file: PipelineFile,
    wishes: Sequence[Wish],
    book: Book,
    *,
    heard: Callable[[int], int],
    seen: int,
    over: Collection[str],
) -> list[Verdict]:
    """What is against each wish, nothing, or None where it is so already.

    An end asked for at a moment is `heard` of later, and what is asked for is `seen` all at once.
    """
    before = {name for name, entry in book.latest().items() if entry.asked and entry.ended is not None}
    ends: dict[Wish, Verdict] = {
        wish: _ended(file, wish, book, heard(wish.moment)) for wish in wishes if wish.ended
    }
    ends |= {wish: None for wish in ends if before.issuperset(wish.ended)}
    asked = [each for wish in wishes for each in wish.asked]
    asks = iter(refused_in_turn(file, asked, book, first_by_clock(file.stream, seen), over))
    return [ends[wish] if wish.ended else next(asks) for wish in wishes]


def _ended(file: PipelineFile, wish: Wish, book: Book, moment: int) -> tuple[str, ...]:
    """Ends in the book, which is a copy, what somebody wants to end."""
    found: list[str] = []
    for name in wish.ended:
        entry = book.latest().get(name)
        if entry is not None and entry.asked and entry.ended is not None:
            continue  # by another in this turn
        reasons = [f"{file.path.name}: {reason}" for reason in end_refused(name, book)]
        if entry is not None and not reasons:
            opened = read_opened(file.folder)
            book.end(entry.name, last_of(file.stream, entry, moment, 0, opened), runs_on=True)
        found += reasons
    return tuple(found)
