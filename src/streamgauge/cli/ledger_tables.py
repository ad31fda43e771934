"""A book as tables."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from rich.console import Console
from rich.text import Text

from streamgauge.cli.screens import add_row, cell, grid, heading
from streamgauge.pipeline.book import Book, loss_of_json
from streamgauge.pipeline.intrusions import Intrusions
from streamgauge.pipeline.reading import read_tick
from streamgauge.pipeline.store import Act
from streamgauge.pipeline.words import cost_text, loss_text, span_text, unit_text
from streamgauge.privacy import Charge, Ledger
from streamgauge.query.released import moment
from streamgauge.query.settings import PipelineFile

BAR = 24  # signs of a timeline


def show_book(console: Console, book: Book, file: PipelineFile) -> None:
    if book.ledger is None:
        heading(console, file.path.name, "nothing was charged yet")
        return
    budget = f"{loss_text(book.ledger.budget)} for {unit_text(book.unit)}"
    heading(console, file.path.name, budget)
    console.print()
    console.print(_charges(book.ledger, file.stream.ticks))
    console.print()
    spent, left = loss_text(book.ledger.spent()), loss_text(book.ledger.remainder())
    console.print(Text.assemble("spent ", (spent, "bold"), "   left ", (left, "bold green")))
    for name, report in file.stream.reports.items():
        console.print(cell(f"{name}, local: {report}"))
    if file.stream.pan_private:
        console.print(cell(Intrusions.of(book, file.stream, read_tick(file.folder))))
    console.print()
    console.print(_acts(book))


def _charges(ledger: Ledger, ticks: int | None) -> Any:
    table = grid("charge", "loss", "ticks", "timeline", "", right=())
    end = max([ticks or 0, *(_reach(charge) for charge in ledger.entries)])
    for charge in ledger.entries:
        if charge.covers is None:
            add_row(table, charge.name, "given back", "", "", _state(charge))
            continue
        for step in charge.covers.steps:
            told = (charge.name, cost_text(step.loss, charge.delta), span_text(step.first, step.last))
            add_row(table, *told, _bar(step.first, step.last, end), _state(charge))
    return table


def _reach(charge: Charge) -> int:
    """The last tick that is known of a charge."""
    return max(step.last or step.first for step in charge.timeline.steps)


def _state(charge: Charge) -> Text:
    return (
        Text("open", "green") if charge.ended is None else cell(f"ended after tick {charge.ended:,}", "dim")
    )


def _bar(first: int, last: int | None, end: int) -> Text:
    """Where a charge lies between the first tick and the last one known; an arrow if it has no end.

    >>> _bar(1, 50, 100).plain, _bar(51, None, 100).plain
    ('━━━━━━━━━━━━            ', '            ━━━━━━━━━━━━>')
    """
    begin = (first - 1) * BAR // max(1, end)
    until = BAR if last is None else max(begin + 1, -(-last * BAR // max(1, end)))
    bar = " " * begin + "━" * (until - begin) + (">" if last is None else " " * (BAR - until))
    return Text(bar, "cyan")


def _acts(book: Book) -> Any:
    table = grid("when (UTC)", "act", "")
    for act in book.acts:
        add_row(table, when(act), act.kind, act_text(act))
    return table


def when(act: Act) -> str:
    return moment(act.time // 10**6 * 10**6).replace("T", " ").removesuffix("Z") if act.time else ""


def act_text(act: Act) -> str:
    """What was done, in a few words.

    >>> act_text(Act("charge", {"release": "fever", "loss": {"epsilon": "1/2"}, "first": 1, "last": None}))
    'fever, epsilon 0.5, ticks 1 on'

    One that is read off reports costs nothing beside them.
    """
    return ", ".join(_words(act))


def _words(act: Act) -> Iterator[str]:
    body = act.body
    if "release" in body:
        yield str(body["release"])
    if act.kind == "column":
        yield str(body["column"])
    if act.kind == "pin":
        yield str(body["block"])
    if act.kind == "charge" and "column" in body:
        yield f"reads column {body['column']}"
    elif "loss" in body:
        yield cost_text(loss_of_json(body["loss"]), Fraction(body.get("delta", 0)))
    if "first" in body:
        yield f"ticks {span_text(body['first'], body['last'])}"
    if "asked" in body:
        yield f"asked for by {body['asked']}"
    if "releases" in body:
        yield ", ".join(map(str, body["releases"]))
    for key, text in (("ingested", "after tick"), ("until", "until tick"), ("tick", "after tick")):
        if key in body:
            yield f"{text} {body[key]:,}"
