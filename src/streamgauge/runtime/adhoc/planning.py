"""The plan of an ad hoc release, before any charge.

Privacy
    A plan or a refusal follows from declarations, the ledger and the clock. No event is read. So no number of
    requests, however clever, can reveal one.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from fractions import Fraction

from streamgauge.config.errors import PipelineFileError
from streamgauge.config.settings import PipelineFile, Release
from streamgauge.plan.planner import ReleasePlan, plan_release
from streamgauge.plan.special_parts import is_unpriced
from streamgauge.privacy import Approx, Loss, PrivacyError, Remainder
from streamgauge.runtime.adhoc.releases import (
    AdHocRelease,
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
from streamgauge.runtime.plan.prices import Price, find_affordable, find_alternatives
from streamgauge.runtime.published import read_ledger_log
from streamgauge.store.store import LedgerEntry

MAX_TEXT_CHARS = {"title": 100, "description": 1000, "sql": 10_000}  # the ledger stores them permanently
COMPARED_FIELDS = ("loss", "delta", "share", "title", "description")  # in addition to the fields in the block


@dataclass(frozen=True)
class AdHocPlan:
    """Cost, predicted error and refusals of a requested release."""

    plan: ReleaseForecast | None  # None if the SQL cannot be answered
    refusals: tuple[str, ...]
    remaining_budget: Loss | Remainder | None  # of the budget, from its first tick on
    remaining_share: Loss | Remainder | None  # of the analyst's share
    affordable: tuple[Price, ...] = ()  # what is left before the request, in each currency, and what it buys


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
    before = ledger_log.copy()
    plan, refused, _ = charge_request(file, replace(requested, share=share), ledger_log, first, finished)
    left = None if ledger_log.ledger is None else ledger_log.ledger.remainder(first)
    hints = {} if plan is None or refused else find_gaussian_hints([plan], ledger_log)
    rest = remaining_share(ledger_log, requested.requested_by, share, first)
    if plan is None:
        return AdHocPlan(None, tuple(refused), left, rest)
    if before.ledger is None:
        before.declare_budget(file.stream.budget)
    forecast = replace(
        forecast_release(plan, ledger_log, first, hints.get(plan.name, "")),
        alternatives=find_alternatives(plan, ledger_log),
    )
    own = remaining_share(before, requested.requested_by, share, first)
    return AdHocPlan(forecast, tuple(refused), left, rest, find_affordable(plan, find_rest(before, plan, own, first)))


def find_rest(
    ledger_log: LedgerLog, plan: ReleasePlan, share: Loss | Remainder | None, first: int
) -> Loss | Remainder | None:
    """Return what a release may cost at most, by the budget and the analyst's share."""
    ledger, span = ledger_log.require_ledger(), (first, plan.last_tick(first))
    if span[1] is not None and span[1] < first:
        return None
    delta = plan.release.delta or 0
    try:
        left, pure = ledger.remaining_loss(*span, delta=delta), ledger.remaining_epsilon(*span, delta=delta)
    except PrivacyError:  # the budget has not so much delta left
        return None
    if pure is not None and isinstance(ledger.budget, Approx):
        rests = [Remainder(pure.epsilon, left.amount), *([share] if isinstance(share, Remainder) else [])]
        return Remainder(min(each.epsilon for each in rests), min(each.rho for each in rests))
    return left if share is None or left.amount <= share.amount else share


def charge_request(
    file: PipelineFile,
    requested: AdHocRelease,
    ledger_log: LedgerLog,
    first: int,
    finished: Collection[str],
    *,
    plan: ReleasePlan | None = None,
) -> tuple[ReleasePlan | None, list[str], list[LedgerEntry]]:
    """Charge a release in a copy of the ledger, unless it is refused.

    Args:
        plan: the plan, if the release is planned already.

    Returns:
        Its plan, the refusals, and the new entries of the ledger.
    """
    refused = [*find_name_refusals(requested.release.name, file, ledger_log), *find_source_refusals(file.stream)]
    refused += find_count_refusals([requested], file, ledger_log, finished)
    try:
        plan = plan or plan_release(file, requested.attributed_release)
    except ValueError as refusal:
        refused.append(str(refusal))
    if plan is not None and not refused:
        capacity = find_capacity_refusals([plan], file, ledger_log, finished)
        reasons = [*capacity, *filter(None, [find_input_refusal(file.stream, [plan])])]
        refused += [f"{file.path.name}: {reason}" for reason in reasons]
    entries: list[LedgerEntry] = []
    if plan is not None and not refused:
        try:
            entries = _charge(file, plan, ledger_log, first, requested.share)
        except ValueError as refusal:
            notes = ": ".join(getattr(refusal, "__notes__", [f"release {plan.name}"]))
            refused.append(f"{file.path.name}: {notes}: {refusal_text(refusal)}")
    return plan, refused, entries


def check_text_lengths(release: Release) -> Release:
    """Return a release whose texts are short enough for a request.

    Raises:
        PipelineFileError: if a text is too long.
    """
    for word, most in MAX_TEXT_CHARS.items():
        if (length := len(getattr(release, word))) > most:
            rule = f"release.{release.name}.{word} must be at most {most} characters in a request"
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
        plan = plan_as_charged(file, again, ledger_log)
    except ValueError:
        return None
    return forecast_release(plan, ledger_log, entry.first) if same and hash_block(plan.block) == entry.block else None


def _charge(
    file: PipelineFile, plan: ReleasePlan, ledger_log: LedgerLog, first: int, share: Fraction | None
) -> list[LedgerEntry]:
    """Charge and pin a release. Return the new entries."""
    entries = [] if ledger_log.ledger is not None else [ledger_log.declare_budget(file.stream.budget)]
    entries += ledger_log.charge_columns(file.stream.reports)
    entries.append(ledger_log.charge(plan.name, plan, first))
    check_share(ledger_log, str(plan.release.requested_by), share)
    lookups = {f"lookup.{name}": file.blocks[f"lookup.{name}"] for name in sorted(plan.query.lookups)}
    return entries + ledger_log.pin({**lookups, f"release.{plan.name}": plan.block})
