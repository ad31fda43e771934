"""The ledger as JSON. All of it is public.

Losses are exact fractions. Keys are only ever added.
"""

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from streamgauge.config.settings import PipelineFile
from streamgauge.privacy import Charge, Ledger
from streamgauge.releases.release import format_utc_time
from streamgauge.runtime.intrusion.count import IntrusionCount
from streamgauge.runtime.ledger.log import LedgerLog, loss_as_json, reports_as_json
from streamgauge.runtime.published import read_tick


def ledger_log_as_json(ledger_log: LedgerLog, file: PipelineFile) -> dict[str, Any]:
    """Return the ledger as JSON.

    The keys: file, budget, spent, delta_spent, remaining, charges, requested_by, columns, intrusions, timeline,
    entries.

    `requested_by` has the analyst of each ad hoc release. `columns` has the loss of reports: of each, and of all
    reports of one user. `timeline` has ranges of ticks. For a unit in a range it gives the largest total loss by the
    current charges, past and future, and the loss that remains. Under an (epsilon, delta) budget `remaining` has an
    epsilon, for a pure release, and a rho, for another one. They are alternatives, not both.
    """
    ledger, intrusions = ledger_log.ledger, None
    if file.stream.pan_private:
        intrusions = IntrusionCount.from_ledger_log(ledger_log, file.stream, read_tick(file))
    return {
        "file": file.path.name,
        "budget": None if ledger is None else loss_as_json(ledger.budget),
        "spent": None if ledger is None else loss_as_json(ledger.spent_loss()),
        "delta_spent": None if ledger is None else str(ledger.spent_delta()),
        "remaining": None if ledger is None else loss_as_json(ledger.remainder()),
        "charges": [] if ledger is None else [_charge_as_json(charge) for charge in ledger.entries],
        "requested_by": {
            name: entry.requested_by for name, entry in ledger_log.releases.items() if entry.requested_by is not None
        },
        "columns": reports_as_json(file.stream),
        "intrusions": None if intrusions is None else intrusions.to_json(),
        "timeline": [] if ledger is None else list(_build_timeline(ledger)),
        "entries": [
            {"time": format_utc_time(act.time) if act.time else None, "kind": act.kind, **act.body}
            for act in ledger_log.ledger_entries
        ],
    }


def _charge_as_json(charge: Charge) -> dict[str, Any]:
    steps = () if charge.active_timeline is None else charge.active_timeline.steps
    spans = [{"first": step.first, "last": step.last, "loss": loss_as_json(step.loss)} for step in steps]
    body = {"release": charge.name, "spans": spans, "end_tick": charge.end_tick}
    return body | ({"delta": str(charge.delta)} if charge.delta else {})


def _build_timeline(ledger: Ledger) -> Iterator[dict[str, Any]]:
    """Yield ranges of ticks with the same loss. The last range has no end."""
    steps = [step for charge in ledger.entries if charge.active_timeline for step in charge.active_timeline.steps]
    after = {step.last + 1 for step in steps if step.last is not None}
    begins = sorted({1} | {step.first for step in steps} | after)  # ticks at which a charge begins, or has ended
    spans = zip(begins, [*(begin - 1 for begin in begins[1:]), None], strict=True)
    for spent, alike in groupby(spans, key=lambda span: loss_as_json(ledger.spent_loss(*span))):
        (first, end), *more = alike
        last = more[-1][1] if more else end
        remaining = loss_as_json(ledger.remainder(first, end))
        yield {"first_tick": first, "last_tick": last, "spent": spent, "remaining": remaining}
