"""What a pipeline file claims to lose, release by release and in all, and what its plan computes to."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from streamgauge.audit.exact import Worst, worst_neighbour
from streamgauge.pipeline.planning import plan_of
from streamgauge.privacy import Approx, Loss
from streamgauge.query.planner import Planned
from streamgauge.query.settings import PipelineFile


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
    parts = [part for plan in plans for part in plan.parts]
    counters = [part.statistic.counter for part in parts]
    kept = {counter.loss.kept_as.currency for counter in counters}
    if any(part.measure.key is not None for part in parts) or kept != {loss.currency}:
        return None
    found = [worst_neighbour(counter, ticks) for counter in counters]
    dear = max(found, key=lambda worst: worst.amount)
    return replace(dear, amount=sum(float(worst.amount) for worst in found))
