"""What a file changes of what was run: which releases are new, go on, or end, and what is refused.

the stream's time, tick, start, unit, columns     fixed after the first charge
a public table that a release reads               fixed with it
a release, changed                                refused: give it a new name
a release, new                                    charged from the next unopened tick; over a finished
                                                  file from its first
a release, gone                                   ends; event-level budget returns for later ticks
the budget                                        an act of its own
sinks, titles, descriptions                       free
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from streamgauge.pipeline.book import Book, block_hash, loss_as_json, loss_of_json
from streamgauge.pipeline.store import Act
from streamgauge.privacy import Loss
from streamgauge.query.planner import Planned
from streamgauge.query.settings import PipelineFile

FIXED = ("stream", "source")


@dataclass(frozen=True)
class Edits:
    """The difference between a file and the book."""

    new: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    budget: tuple[Loss, Loss] | None = None  # before and after
    refused: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"new: {name}" for name in self.new] + [f"ends: {name}" for name in self.ended]
        if self.budget:
            lines.append(f"budget: {self.budget[0]} becomes {self.budget[1]}")
        lines += [f"refused: {reason}" for reason in self.refused]
        return "\n".join(lines) or "nothing has changed"


def edits(file: PipelineFile, planned: Sequence[Planned], book: Book) -> Edits:
    """Compares a file with what was used of it so far."""
    texts = pinned_texts(book)
    asked = {each.name: each for each in planned}
    names = [release.name for release in file.releases]
    running = {base_name(name): entry for name, entry in book.entries.items()}
    refused = [*_fixed(file, texts), *_tables(file, planned, texts)]
    kept = []
    for name in names:
        if name not in running or name not in asked:
            continue
        if running[name].ended is not None:
            refused.append(f"release {name} must have a name of its own, got that of one that has ended")
        elif running[name].block != block_hash(asked[name].block):
            keys = changed_keys(texts.get(f"release.{name}", "{}"), asked[name].block)
            refused.append(
                f"release {name} must stay as it was charged, got another {keys}: give it a new name"
            )
        else:
            kept.append(name)
    return Edits(
        new=tuple(name for name in names if name not in running),
        kept=tuple(kept),
        ended=tuple(n for n, entry in book.open_releases().items() if base_name(n) not in names),
        budget=_budget(file, book),
        refused=tuple(refused),
    )


def pinned_texts(book: Book) -> dict[str, str]:
    """The blocks as they were last pinned."""
    return {act.body["block"]: act.body["text"] for act in book.acts if act.kind == "pin"}


def base_name(published: str) -> str:
    """A release that was run again is published as name@2: the name in the file is the same."""
    return published.partition("@")[0]


def changed_keys(before: str, after: str) -> str:
    """Which keys of a block differ."""
    old, new = json.loads(before), json.loads(after)
    keys = sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
    return ", ".join(keys)


def _fixed(file: PipelineFile, texts: Mapping[str, str]) -> list[str]:
    found = []
    for block in FIXED:
        keys = changed_keys(texts.get(block, file.blocks[block]), file.blocks[block])
        if keys:
            found.append(
                f"stream must stay as it was at the first charge, got another {keys}: start a new pipeline"
            )
    return found


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


def budget_of(acts: Sequence[Act]) -> Loss | None:
    """The budget that was declared last."""
    found = [loss_of_json(act.body["loss"]) for act in acts if act.kind == "budget"]
    return found[-1] if found else None
