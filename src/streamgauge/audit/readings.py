"""From what is published back to what a counter released, where that can be had: the evidence of a pipeline.

    COUNT, SUM            as they are
    COUNT(DISTINCT) each  as it is; of a hashed column, the count of cells that it was estimated from
    COUNT and AVG, SUM    the two channels that a mean is made of (see `streamgauge.statistics.moments`)
    anything else         not read: trained scores look at it

What a counter releases without noise is taken from a real run without noise, so that nothing is assumed of
the way there; the law of the noise is what the plan writes down.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from streamgauge.audit.likelihood import Likelihood, fixed
from streamgauge.audit.linear import LinearView, written
from streamgauge.audit.sink_forms import PARTS
from streamgauge.audit.sink_rows import Seen, View
from streamgauge.audit.subject import Score
from streamgauge.noise.numbers import Floats
from streamgauge.query.parts import Part
from streamgauge.statistics import Count, Sum, Summary
from streamgauge.statistics.hash_cells import HashCells
from streamgauge.statistics.ratio import Sums

DIGITS = 6  # of counts of cells, which are mostly whole

Channels = Callable[[Floats], Floats]  # (runs, places of a view) to (runs, channels x groups, ticks)


@dataclass(frozen=True, eq=False)
class Reading:
    """One part of a release, read back."""

    view: LinearView
    channels: Channels

    def evidence(self, one: Floats, other: Floats) -> Score | None:
        """The log-likelihood ratio between two views without noise; none if they are the same."""
        streams = [self.channels(side[None])[0] for side in (one, other)]
        moved = np.flatnonzero((streams[0] != streams[1]).any(axis=1))
        if not len(moved):
            return None
        ratio = Likelihood(self.view, len(moved), fixed(streams[0][moved], streams[1][moved]))
        return partial(_of_groups, self.channels, moved, ratio)


def _of_groups(channels: Channels, moved: np.ndarray, ratio: Likelihood, views: Floats) -> Floats:
    return ratio(np.nan_to_num(channels(views)[:, moved]).reshape(len(views), -1))


def readings(seen: Seen) -> list[Reading] | None:
    """Of all parts of a release, or nothing if one of them cannot be read."""
    found = [_reading(seen, part) for part in seen.plan.parts]
    return [reading for reading in found if reading] if all(found) else None


def _reading(seen: Seen, part: Part) -> Reading | None:
    columns = {output.column: output.aggregate for output in part.outputs}
    if part.measure.key is not None or part.statistic.depends:
        return None
    values = {name: partial(_value, seen, part, aggregate) for name, aggregate in columns.items()}
    statistic = part.statistic
    if isinstance(statistic, Count | Sum):
        counts = partial(_single, values["value"], statistic.scale)
        if statistic.hash_cells is not None:
            counts = partial(_occupied, HashCells(statistic.hash_cells), counts)
        return Reading(_view(seen, part), counts)
    if isinstance(statistic, Summary) and not statistic.squares and {"count"} < values.keys():
        return Reading(_view(seen, part), partial(_pair, statistic, values))
    return None


def _view(seen: Seen, part: Part) -> LinearView:
    """The noise of a counter's releases; they are their own data."""
    own = written(part.statistic.linear.strategy(seen.ticks))
    return replace(own, by_data=np.eye(seen.ticks))


def _value(seen: Seen, part: Part, aggregate: int, views: Floats) -> Floats:
    """(runs, groups of the part's level, ticks)."""
    level = [place for place, group in enumerate(seen.groups) if len(group) == part.level]
    told = seen.numbers(views)[:, :, level, aggregate, PARTS.index("value")]
    return np.moveaxis(told, 1, 2)


def _single(value: Callable[[Floats], Floats], scale: float, views: Floats) -> Floats:
    return value(views) / scale


def _occupied(table: HashCells, value: Channels, views: Floats) -> Floats:
    """Cells that were counted; full tables are read as one of them."""
    return np.round(table.counts(value(views)), DIGITS)


def _pair(statistic: Summary, values: Mapping[str, Callable[[Floats], Floats]], views: Floats) -> Floats:
    """Number and sum, from number and mean: a mean is the sum over the number, floored."""
    moments = statistic.moments
    count = values["count"](views)
    if "sum" in values:
        total = (values["sum"](views) - moments.middle * count) / moments.half
    else:
        unit = (values["mean"](views) - moments.middle) / moments.half
        total = unit * _floored(statistic, count)
    both = np.stack([count, total], axis=1)
    channels = np.einsum("cp,rpgt->rcgt", np.linalg.inv(moments.decoder), both)
    return np.asarray(channels.reshape(len(views), -1, count.shape[-1]), np.float64)


def _floored(statistic: Summary, count: Floats) -> Floats:
    decoder = statistic.moments.decoder
    one = np.sqrt(np.diag(decoder @ decoder.T))
    noise = np.array([statistic.linear.stddev(tick + 1) for tick in range(count.shape[-1])])
    return Sums(count, count, one[0] * noise, one[1] * noise).floored


def evidence_of(view: View, one: Floats, other: Floats) -> Score | None:
    """What is known between two views without noise, of all releases that can be read back."""
    found = [reading.evidence(one, other) for seen in view.firsts for reading in readings(seen) or ()]
    scores = [score for score in found if score is not None]
    return summed(scores) if scores else None


def summed(scores: Sequence[Score]) -> Score:
    """Parts have noise of their own: their evidence adds up."""
    return partial(_summed, tuple(scores))


def _summed(scores: Sequence[Score], views: Floats) -> Floats:
    return np.asarray(np.sum([score(views) for score in scores], axis=0), np.float64)
