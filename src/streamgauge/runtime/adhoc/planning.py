"""The plan of an ad hoc release, before any charge.

Privacy
    A plan or a refusal follows from declarations, the ledger and the clock. No event is read. So no number of
    requests, however clever, can reveal one.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from streamgauge.config.errors import PipelineFileError
from streamgauge.config.settings import PipelineFile, Release
from streamgauge.plan.planner import ReleasePlan, plan_release
from streamgauge.plan.special_parts import is_unpriced
from streamgauge.privacy import Loss, Remainder
from streamgauge.runtime.adhoc.releases import (
    AdHocRelease,
    add_adhoc_releases,
    find_capacity_refusals,
    find_count_refusals,
    find_name_refusals,
    find_source_refusals,
    restore_release,
)
from streamgauge.runtime.edits import plan_as_charged
from streamgauge.runtime.format import refusal_text
from streamgauge.runtime.ledger.log import LedgerLog, hash_block
from streamgauge.runtime.ledger.shares import check_share, remaining_share
from streamgauge.runtime.plan.gaussian_hints import find_gaussian_hints
from streamgauge.runtime.plan.limits import find_input_refusal
from streamgauge.runtime.plan.plan import ReleaseForecast, first_tick, forecast_release
from streamgauge.runtime.published import read_ledger_log

MAX_TEXT_CHARS = {"title": 100, "description": 1000, "sql": 10_000}  # the ledger stores them permanently
COMPARED_FIELDS = ("loss", "delta", "share", "title", "description")  # in addition to the fields in the block


@dataclass(frozen=True)
class AdHocPlan:
    """Cost, predicted error and refusals of a requested release."""

    plan: ReleaseForecast | None  # None if the SQL cannot be answered
    refusals: tuple[str, ...]
    remaining_budget: Loss | Remainder | None  # of the budget, from its first tick on
    remaining_share: Loss | Remainder | None  # of the analyst's share


def plan_adhoc(
    file: PipelineFile,
    requested: AdHocRelease,
    share: Fraction | None = None,
    *,
    ledger_log: LedgerLog | None = None,
    first: int | None = None,
    finished: Collection[str] = (),
) -> AdHocPlan:
    """Plan a requested release in addition to all charged ones.

    During a run, its server gives `ledger_log` and `first` by the clock. The open tick in the store would show that
    events arrived.

    Args:
        share: the analyst's share of the budget.
        finished: ended releases whose last tick is visible to readers.
    """
    ledger_log = read_ledger_log(file) if ledger_log is None else ledger_log.copy()
    first = first_tick(file) if first is None else first
    share = requested.share if share is None else share
    plan, refused = _check_request(file, replace(requested, share=share), ledger_log, first, finished)
    left = None if ledger_log.ledger is None else ledger_log.ledger.remainder(first)
    hints = {} if plan is None or refused else find_gaussian_hints([plan], ledger_log)
    forecast = None if plan is None else forecast_release(plan, ledger_log, first, hints.get(plan.name, ""))
    return AdHocPlan(forecast, tuple(refused), left, remaining_share(ledger_log, requested.requested_by, share, first))


def find_batch_refusals(
    file: PipelineFile,
    requested: Sequence[AdHocRelease],
    ledger_log: LedgerLog,
    first: int,
    finished: Collection[str] = (),
) -> list[tuple[str, ...]]:
    """Return the refusals of each release if they were accepted one after the other."""
    found = []
    for each in requested:
        then = ledger_log.copy()
        plan, refused = _check_request(file, each, then, first, finished)
        if plan is not None and not refused:
            then.pin({f"release.{plan.name}": plan.block})
            ledger_log = then
        found.append(tuple(refused))
    return found


def _check_request(
    file: PipelineFile, requested: AdHocRelease, ledger_log: LedgerLog, first: int, finished: Collection[str]
) -> tuple[ReleasePlan | None, list[str]]:
    """Charge a release in a copy of the ledger, unless it is refused."""
    whole = add_adhoc_releases(file, ledger_log)
    refused = [*find_name_refusals(requested.release.name, whole, ledger_log), *find_source_refusals(file.stream)]
    refused += find_count_refusals([requested], file, ledger_log, finished)
    plan: ReleasePlan | None = None
    try:
        plan = plan_release(whole, requested.attributed_release)
    except ValueError as refusal:
        refused.append(str(refusal))
    if plan is not None and not refused:
        capacity = find_capacity_refusals([plan], file, ledger_log, finished)
        refused += [f"{file.path.name}: {reason}" for reason in capacity]
    if plan is not None and not refused:
        refused += _try_charge(whole, plan, ledger_log, first, requested.share)
    return plan, refused


def check_text_lengths(release: Release) -> Release:
    """Return a release whose texts are short enough for a request.

    Raises:
        PipelineFileError: if a text is too long.
    """
    for word, most in MAX_TEXT_CHARS.items():
        if (length := len(getattr(release, word))) > most:
            rule = f"release.{release.name}.{word} must be at most {most} characters where it is asked for"
            raise PipelineFileError(f"{rule}, got {length}")
    return release


def find_same_request(file: PipelineFile, requested: AdHocRelease, ledger_log: LedgerLog) -> ReleaseForecast | None:
    """Return the charged release if the same analyst requests the same open one again."""
    entry = ledger_log.latest_releases().get(requested.release.name)
    if entry is None or entry.end_tick is not None or entry.requested_by != requested.requested_by:
        return None
    known, again = restore_release(entry, ledger_log), requested.attributed_release
    if entry.column is not None and is_unpriced(again.loss):
        again = replace(again, loss=entry.loss, column=entry.column)
    same = all(getattr(known, key) == getattr(again, key) for key in COMPARED_FIELDS)
    try:
        plan = plan_as_charged(add_adhoc_releases(file, ledger_log), again, ledger_log)
    except ValueError:
        return None
    return forecast_release(plan, ledger_log, entry.first) if same and hash_block(plan.block) == entry.block else None


def _try_charge(
    file: PipelineFile, plan: ReleasePlan, ledger_log: LedgerLog, first: int, share: Fraction | None
) -> list[str]:
    """Apply the charges of a run to a copy of the ledger. Return the refusals."""
    if reason := find_input_refusal(file.stream, [plan]):
        return [f"{file.path.name}: {reason}"]
    if ledger_log.ledger is None:
        ledger_log.declare_budget(file.stream.budget)
    try:
        ledger_log.charge_columns(file.stream.reports)
        ledger_log.charge(plan.name, plan, first)
        check_share(ledger_log, str(plan.release.requested_by), share)
    except ValueError as refusal:
        notes = ": ".join(getattr(refusal, "__notes__", [f"release {plan.name}"]))
        return [f"{file.path.name}: {notes}: {refusal_text(refusal)}"]
    return []
