"""A plan as JSON. Losses are exact fractions; keys are only ever added."""

from math import isfinite
from typing import Any

from streamgauge.pipeline.book import loss_as_json, reports_as_json
from streamgauge.pipeline.planning import Choice, Plan, PlannedRelease
from streamgauge.pipeline.words import unit_text
from streamgauge.privacy import Loss, Remainder
from streamgauge.query.predicted import Error
from streamgauge.query.promises import describe_assumption, describe_contributions


def plan_as_json(plan: Plan) -> dict[str, Any]:
    """
    The keys: file, releases (name, sql, window, loss, first_tick, last_tick, groups, columns, parts, errors,
    delta, discovered, asked, alerts, column, contributions), columns of reports (column, protocol, loss,
    again, reports_per_user, per_user), ledger (budget, before, after), edits (new, kept, ended, budget),
    refused, notes, keeps (bytes), intrusions (made, left; null where none can be survived), unit (protects,
    contributions, assumption; null where there is none).
    """
    return {
        "file": plan.file.path.name,
        "releases": [release_as_json(release) for release in plan.releases],
        "ledger": {
            "budget": loss_as_json(plan.file.stream.budget),
            "before": _ledger_as_json(plan.spent[0], plan.left[0]),
            "after": _ledger_as_json(plan.spent[1], plan.left[1]),
        },
        "edits": {**_edits_as_json(plan), "budget": _budget_as_json(plan)},
        "refused": list(plan.refused),
        "notes": list(plan.notes),
        "keeps": plan.keeps,
        "intrusions": None if plan.intrusions is None else plan.intrusions.as_json(),
        "columns": reports_as_json(plan.file.stream),
        "unit": {
            "protects": unit_text(plan.file.stream.unit),
            "contributions": describe_contributions(plan.file.stream) or None,
            "assumption": describe_assumption(plan.file.stream) or None,
        },
    }


def _edits_as_json(plan: Plan) -> dict[str, Any]:
    return {name: list(getattr(plan.edits, name)) for name in ("new", "kept", "ended")}


def _budget_as_json(plan: Plan) -> dict[str, Any] | None:
    if plan.edits.budget is None:
        return None
    before, after = map(loss_as_json, plan.edits.budget)
    return {"before": before, "after": after}


def _ledger_as_json(spent: Loss | None, left: Loss | Remainder | None) -> dict[str, Any]:
    return {
        "spent": None if spent is None else loss_as_json(spent),
        "left": None if left is None else loss_as_json(left),
    }


def release_as_json(release: PlannedRelease) -> dict[str, Any]:
    """One release of a plan."""
    return {
        "name": release.name,
        "sql": release.sql,
        "window": release.window,
        "loss": loss_as_json(release.loss),
        "first_tick": release.first,
        "last_tick": release.last,
        "groups": release.groups,
        "columns": list(release.columns),
        "parts": [_choice_as_json(choice) for choice in release.choices],
        "errors": [_error_as_json(error) for error in release.errors],
        "delta": None if release.delta is None else str(release.delta),
        "discovered": release.discovered,
        "asked": release.asked,
        "alerts": list(release.alerts),
        "column": release.column,
        "contributions": release.contributions or None,
    }


def _choice_as_json(choice: Choice) -> dict[str, Any]:
    others = [{"mechanism": name, "error_ratio": ratio} for name, ratio in choice.runners_up]
    return {
        "measures": list(choice.measures),
        "level": choice.level,
        "loss": loss_as_json(choice.loss),
        "mechanism": choice.mechanism,
        "runners_up": others,
        "depends": choice.depends,
        "reason": choice.reason,
        "hints": list(choice.hints),
    }


def _error_as_json(error: Error) -> dict[str, Any]:
    names = ("measure", "tick", "stddev", "half_width", "level", "relative", "note", "threshold")
    return {name: finite(getattr(error, name)) for name in names}


def finite(value: Any) -> Any:
    """Numbers that JSON has no word for are none."""
    return None if isinstance(value, float) and not isfinite(value) else value
