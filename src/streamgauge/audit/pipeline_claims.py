"""What a pipeline file claims to lose, release by release and in all, and what its plan computes to."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from pathlib import Path

from streamgauge.audit.exact import Worst, worst_neighbour
from streamgauge.audit.shared_events import Piece, families, most_together
from streamgauge.pipeline.planning import plan_of
from streamgauge.privacy import Approx, Loss
from streamgauge.query.planner import Planned
from streamgauge.query.settings import PipelineFile

HORIZON = 1024  # ticks over which a loss is computed at most


class CannotBeAudited(ValueError):  # noqa: N818 - refusals are named by what they say
    """A pipeline file that would not run: why."""


def claim_of(plan: Planned) -> Loss:
    """What a release claims to lose, the delta of groups that are discovered included."""
    loss, delta = plan.release.loss, plan.release.delta
    if delta is None:
        return loss.kept_as
    return Approx(loss.as_approx(delta).epsilon, delta)


def charged(file: PipelineFile, nowhere: Path) -> Loss:
    """What the ledger of a file that never ran charges for all its releases; `nowhere` has no store."""
    plan = plan_of(replace(file, path=nowhere / file.path.name))
    if plan.refused or plan.spent[1] is None:
        raise CannotBeAudited("; ".join(plan.refused) or f"{file.path.name}: nothing is charged")
    return plan.spent[1]


def computed(plans: Sequence[Planned], ticks: int, loss: Loss) -> Worst | None:
    """What the parts of some releases lose together within the first ticks: between two ends.

    Losses of the same events add up (see `shared_events`). Nothing is said of groups that are discovered, of
    counters that adapt to their data, nor of losses that are not all kept in the currency of the claim.
    """
    parts = [(plan, part, min(ticks, plan.last_tick(1) or ticks)) for plan in plans for part in plan.parts]
    kept = {part.statistic.counter.loss.kept_as.currency for _, part, _ in parts}
    unread = any(part.measure.key is not None or part.statistic.depends for _, part, _ in parts)
    if unread or kept != {loss.currency}:
        return None
    return together(
        [(plan, part, worst_neighbour(part.statistic.linear, last)) for plan, part, last in parts]
    )


def together(pieces: Sequence[Piece]) -> Worst:
    """What is lost by all at once: at least what one unit surely loses, at most what all add up to."""
    surely = max((alike(family) for family in families(pieces) if family), key=lambda worst: worst.floor)
    return replace(surely, amount=max(surely.floor, most_together(pieces)), least=surely.floor)


def alike(found: Sequence[Worst]) -> Worst:
    """Of losses that one event has at once: those that one unit, the dearest, has all of."""
    dear = max(found, key=lambda worst: worst.floor)
    return replace(
        dear, least=sum(worst.floor for worst in found if worst.pattern == dear.pattern), amount=inf
    )


def horizon(plans: Sequence[Planned]) -> int:
    """The last tick of some releases, or the last that is computed."""
    return max(min(HORIZON, plan.last_tick(1) or HORIZON) for plan in plans)
