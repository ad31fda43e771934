"""A ledger as tables."""

from collections.abc import Collection, Iterator
from fractions import Fraction
from typing import Any

from rich.console import Console
from rich.text import Text

from streamgauge.cli.console import add_row, build_cell, build_table, print_heading
from streamgauge.config.settings import PipelineFile
from streamgauge.privacy import Charge
from streamgauge.releases.release import format_utc_time
from streamgauge.runtime.format import cost_text, loss_text, span_text, unit_text
from streamgauge.runtime.intrusion.count import IntrusionCount
from streamgauge.runtime.ledger.log import LedgerLog, parse_loss
from streamgauge.runtime.published import read_tick
from streamgauge.store.store import LedgerEntry

BAR_CHARS = 24  # signs of a timeline


def show_ledger(console: Console, ledger_log: LedgerLog, file: PipelineFile) -> None:
    if ledger_log.ledger is None:
        print_heading(console, file.path.name, "nothing was charged yet")
        return
    budget = f"{loss_text(ledger_log.ledger.budget)} for {unit_text(ledger_log.unit)}"
    print_heading(console, file.path.name, budget)
    console.print()
    console.print(_build_charges(ledger_log, file.stream.ticks, read_tick(file)))
    console.print()
    spent, left = loss_text(ledger_log.ledger.spent_loss()), loss_text(ledger_log.ledger.remainder())
    console.print(Text.assemble("spent ", (spent, "bold"), "   left ", (left, "bold green")))
    for name, report in file.stream.reports.items():
        console.print(build_cell(f"{name}, local: {report}"))
    if file.stream.pan_private:
        console.print(build_cell(IntrusionCount.from_ledger_log(ledger_log, file.stream, read_tick(file))))
    console.print()
    table = build_table("when (UTC)", "act", "")
    for entry in ledger_log.ledger_entries:
        time = format_utc_time(entry.time // 10**6 * 10**6).replace("T", " ").removesuffix("Z") if entry.time else ""
        add_row(table, time, entry.kind, entry_text(entry))
    console.print(table)


def _build_charges(ledger_log: LedgerLog, ticks: int | None, newest: int) -> Any:
    ledger = ledger_log.require_ledger()
    finished = {name for name, each in ledger_log.releases.items() if each.final_tick and each.final_tick <= newest}
    table = build_table("charge", "loss", "ticks", "timeline", "", right_aligned=())
    known = [step.last or step.first for charge in ledger.entries for step in charge.timeline.steps]
    end = max([ticks or 0, *known])
    for charge in ledger.entries:
        if charge.active_timeline is None:
            add_row(table, charge.name, "given back", "", "", _format_state(charge, finished))
            continue
        for step in charge.active_timeline.steps:
            cells = (charge.name, cost_text(step.loss, charge.delta), span_text(step.first, step.last))
            add_row(table, *cells, _format_bar(step.first, step.last, end), _format_state(charge, finished))
    return table


def _format_state(charge: Charge, finished: Collection[str]) -> Text:
    """Return "finished" for a release that has published its last tick."""
    if charge.end_tick is not None:
        return build_cell(f"ended after tick {charge.end_tick:,}", "dim")
    return Text("finished", "dim") if charge.name in finished else Text("open", "green")


def _format_bar(first: int, last: int | None, end: int) -> Text:
    """Return a bar from the first to the last tick of a charge; an arrow if it has no end.

    >>> _format_bar(1, 50, 100).plain, _format_bar(51, None, 100).plain
    ('━━━━━━━━━━━━            ', '            ━━━━━━━━━━━━>')
    """
    begin = (first - 1) * BAR_CHARS // max(1, end)
    until = BAR_CHARS if last is None else max(begin + 1, -(-last * BAR_CHARS // max(1, end)))
    bar = " " * begin + "━" * (until - begin) + (">" if last is None else " " * (BAR_CHARS - until))
    return Text(bar, "cyan")


def entry_text(act: LedgerEntry) -> str:
    """Return an entry in a few words.

    >>> entry_text(LedgerEntry("charge", {"release": "fever", "loss": {"epsilon": "1/2"}, "first": 1, "last": None}))
    'fever, epsilon 0.5, ticks 1 on'

    A release of reports costs nothing beside them.
    """
    return ", ".join(_describe_entry(act))


def _describe_entry(act: LedgerEntry) -> Iterator[str]:
    body = act.body
    if "release" in body:
        yield str(body["release"])
    if act.kind == "column":
        yield str(body["column"])
    if act.kind == "pin":
        yield str(body["block"])
        yield from (f"column {name}" for name in body.get("columns", ()))
    if act.kind == "charge" and "column" in body:
        yield f"reads column {body['column']}"
    elif "loss" in body:
        yield cost_text(parse_loss(body["loss"]), Fraction(body.get("delta", 0)))
    if "first" in body:
        yield f"ticks {span_text(body['first'], body['last'])}"
    if "requested_by" in body:
        yield f"requested by {body['requested_by']}"
    if "releases" in body:
        yield ", ".join(map(str, body["releases"]))
    for key, text in (("last_tick", "after tick"), ("until_tick", "until tick"), ("tick", "after tick")):
        if key in body:
            yield f"{text} {body[key]:,}"
