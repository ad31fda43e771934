"""What a pipeline file claims to lose, release by release and in all, and what its plan computes to."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from streamgauge.audit.exact import Worst, worst_neighbour
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
    """The most that the parts of some releases lose together within the first ticks, by their matrices.

    Losses of the same events add up. Nothing is said of groups that are discovered, nor of losses that are
    not all kept in the currency of the claim.
    """
    parts = [(part, min(ticks, plan.last_tick(1) or ticks)) for plan in plans for part in plan.parts]
    kept = {part.statistic.counter.loss.kept_as.currency for part, _ in parts}
    if any(part.measure.key is not None for part, _ in parts) or kept != {loss.currency}:
        return None
    return together([worst_neighbour(part.statistic.counter, last) for part, last in parts])


def together(found: Sequence[Worst]) -> Worst:
    """What is lost by all at once: at most the sum, and that for certain if one unit is the worst for all."""
    dear = max(found, key=lambda worst: worst.floor)
    floors = [worst.floor for worst in found if worst.pattern == dear.pattern]
    return replace(dear, amount=sum(float(worst.amount) for worst in found), least=sum(floors))


def horizon(plans: Sequence[Planned]) -> int:
    """The last tick of some releases, or the last that is computed."""
    return max(min(HORIZON, plan.last_tick(1) or HORIZON) for plan in plans)
