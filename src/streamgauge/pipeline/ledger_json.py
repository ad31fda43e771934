"""A book as JSON: public, all of it. Losses are exact fractions; keys are only ever added."""

from collections.abc import Iterator
from typing import Any

from streamgauge.pipeline.book import Book, loss_as_json, reports_as_json
from streamgauge.pipeline.intrusions import Intrusions
from streamgauge.pipeline.reading import read_tick
from streamgauge.privacy import Charge, Ledger
from streamgauge.query.released import moment
from streamgauge.query.settings import PipelineFile


def book_as_json(book: Book, file: PipelineFile) -> dict[str, Any]:
    """The keys: file, budget, spent, delta_spent, left, charges, asked, columns, intrusions, timeline, acts.

    `asked` tells who asked for a release, `columns` what reports lose, each and all of one user. `timeline`
    tells, for runs of ticks, what a unit that touches them has lost and will lose in all, at most, by what is
    charged now, and what it can still lose. Under an (epsilon, delta) budget `left` has an epsilon, for a
    release that is pure, and a rho, for another one: alternatives, not both.
    """
    ledger = book.ledger
    return {
        "file": file.path.name,
        "budget": None if ledger is None else loss_as_json(ledger.budget),
        "spent": None if ledger is None else loss_as_json(ledger.spent()),
        "delta_spent": None if ledger is None else str(ledger.delta_spent()),
        "left": None if ledger is None else loss_as_json(ledger.remainder()),
        "charges": [] if ledger is None else [_charge_as_json(charge) for charge in ledger.entries],
        "asked": {name: entry.asked for name, entry in book.entries.items() if entry.asked is not None},
        "columns": reports_as_json(file.stream),
        "intrusions": _intrusions(book, file) if file.stream.pan_private else None,
        "timeline": [] if ledger is None else list(_timeline(ledger)),
        "acts": [
            {"time": moment(act.time) if act.time else None, "kind": act.kind, **act.body}
            for act in book.acts
        ],
    }


def _intrusions(book: Book, file: PipelineFile) -> dict[str, Any]:
    return Intrusions.of(book, file.stream, read_tick(file.folder)).as_json()


def _charge_as_json(charge: Charge) -> dict[str, Any]:
    steps = () if charge.covers is None else charge.covers.steps
    spans = [{"first": step.first, "last": step.last, "loss": loss_as_json(step.loss)} for step in steps]
    told = {"release": charge.name, "covers": spans, "ended_after": charge.ended}
    return told | ({"delta": str(charge.delta)} if charge.delta else {})


def _timeline(ledger: Ledger) -> Iterator[dict[str, Any]]:
    """Runs of ticks with the same loss, the last of which goes on."""
    begins = _begins(ledger)
    last: dict[str, Any] | None = None
    for begin, following in zip(begins, [*begins[1:], None], strict=True):
        end = None if following is None else following - 1
        spent = loss_as_json(ledger.spent(begin, end))
        if last is not None and last["spent"] == spent:
            last["to"] = end
            continue
        if last is not None:
            yield last
        last = {"from": begin, "to": end, "spent": spent, "left": loss_as_json(ledger.remainder(begin, end))}
    if last is not None:
        yield last


def _begins(ledger: Ledger) -> list[int]:
    """The ticks where a charge begins, or has ended."""
    steps = [step for charge in ledger.entries if charge.covers for step in charge.covers.steps]
    after = {step.last + 1 for step in steps if step.last is not None}
    return sorted({1} | {step.first for step in steps} | after)
