"""What a file changes of what was run: which releases are new, go on, or end, and what is refused.

the stream's time, tick, start, unit, columns     fixed after the first charge, like where events come from
a public table that a release reads               fixed with it
a release, changed                                refused: give it a new name; a `share` is of the budget as
                                                  it was when the release was charged
a release, as it was                              goes on with the mechanisms and names that it was charged
                                                  with, whatever this version would choose or call them
a release, new                                    charged from the next unopened tick; over a finished
                                                  file from its first
a release that an analyst asked for               goes on until it is ended: it is in no file (`with_asked`)
a release, gone                                   ends; event-level budget returns for later ticks
the budget                                        an act of its own
sinks, titles, descriptions                       free
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from streamgauge.pipeline.as_charged import changed_keys, charge_of, pinned_texts, plain, respelled_block
from streamgauge.pipeline.book import Book, Entry, base_name, block_hash, loss_as_json
from streamgauge.pipeline.room import no_room, reject_large_parts
from streamgauge.privacy import Loss
from streamgauge.query.planner import Planned
from streamgauge.query.settings import PipelineFile

FIXED = ("stream", "source")
ALERTS = "alerts are columns that readers have; put them back, make others of what is published, for nothing"


@dataclass(frozen=True)
class Edits:
    """The difference between a file and the book."""

    new: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    budget: tuple[Loss, Loss] | None = None  # before and after
    refused: tuple[str, ...] = ()


def edits(file: PipelineFile, planned: Sequence[Planned], book: Book) -> Edits:
    """Compares a file with what was used of it so far."""
    texts = pinned_texts(book)
    asked = {each.name: each for each in planned}
    names = [release.name for release in file.releases]
    running = book.latest()
    new = [name for name in names if name not in running]
    refused = [*_fixed(file, texts), *_tables(file, planned, texts), *_taken(file, running)]
    if reason := no_room(file.stream, [asked[name] for name in new if name in asked]):
        refused.append(reason)
    for name in new:  # a release that analysts request is judged with their other limits
        if name in asked and asked[name].release.asked is None:
            refused += reject_large_parts(asked[name])
    kept = []
    for name in names:
        if name not in running or name not in asked:
            continue
        if running[name].ended is not None:
            refused.append(f"release {name} must have a name of its own, got that of one that has ended")
        elif keys := _changed(asked[name], running[name].block, book):
            way = f"{ALERTS}, or give it a new name" if keys == "alerts" else "give it a new name"
            refused.append(f"release {name} must stay as it was charged, got another {keys}: {way}")
        else:
            kept.append(name)
    return Edits(
        new=tuple(new),
        kept=tuple(kept),
        ended=tuple(n for n, entry in book.open_releases().items() if base_name(n) not in names),
        budget=_budget(file, book),
        refused=tuple(refused),
    )


def _taken(file: PipelineFile, running: Mapping[str, Entry]) -> list[str]:
    """Names of the file that analysts have taken, in this case or another."""
    asked = {name.lower() for name, entry in running.items() if entry.asked is not None}
    own = [each.name for each in file.releases if each.asked is None and each.name.lower() in asked]
    rule, way = "must have a name of its own, got that of one that was asked for", "rename it in the file"
    return [f"release {name} {rule}: {way}, names are taken for ever" for name in own]


def _changed(plan: Planned, block: str, book: Book) -> str:
    """What a release has otherwise than when it was charged."""
    if block != block_hash(plan.block):
        pinned = pinned_texts(book).get(f"release.{plan.name}", "{}")
        return changed_keys(respelled_block(pinned, plan.query), plan.block)
    return "" if plain(plan.layout) == charge_of(plan.name, book)["layout"] else "shape"


def _fixed(file: PipelineFile, texts: Mapping[str, str]) -> list[str]:
    changed = [changed_keys(texts.get(block, file.blocks[block]), file.blocks[block]) for block in FIXED]
    keys = ", ".join(filter(None, changed))
    rule = f"stream must stay as it was at the first charge, got another {keys}"
    return [f"{rule}: put it back; a new pipeline over the same people is a second budget"] if keys else []


def _tables(file: PipelineFile, planned: Sequence[Planned], texts: Mapping[str, str]) -> list[str]:
    used = {name for each in planned for name in each.query.lookups}
    changed = [
        name
        for name in sorted(used)
        if texts.get(f"lookup.{name}", file.blocks[f"lookup.{name}"]) != file.blocks[f"lookup.{name}"]
    ]
    return [
        f"lookup {name} must stay as it was charged, got another table: give it a new name"
        for name in changed
    ]


def _budget(file: PipelineFile, book: Book) -> tuple[Loss, Loss] | None:
    if book.ledger is None or loss_as_json(book.ledger.budget) == loss_as_json(file.stream.budget):
        return None
    return book.ledger.budget, file.stream.budget
