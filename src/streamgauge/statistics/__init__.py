"""Statistics of the events of a stream, with error bars.

statistic           the base class `Statistic`, and the effect of one unit on a vector
mechanism_config    the mechanism that a statistic counts with, and its settings
user_bounds         bounds on the events of one user
events              events as columns
run                 `EventRun`: events in, estimates out
run_state           the saved state of a run
estimate            estimates with error bars
validation          checks of settings
count               counts
median_selection    `private_median` of values that are there at once
moments/            sums, means, variances
ordered/            quantiles, extremes, ranges
keys/               histograms, distinct counts, top k, totals of a large domain
user_table          statistics of users in pan-private pipelines
local_frequency     frequencies of private reports
"""

from streamgauge.statistics.count import Count
from streamgauge.statistics.estimate import Columns, Estimate
from streamgauge.statistics.keys.approx_frequency import ApproxFrequency
from streamgauge.statistics.keys.distinct import Distinct
from streamgauge.statistics.keys.histogram import Histogram
from streamgauge.statistics.keys.ranking import Ranking
from streamgauge.statistics.keys.top_k import TopK
from streamgauge.statistics.mechanism_config import MechanismConfig
from streamgauge.statistics.median_selection import private_median
from streamgauge.statistics.moments.mean import Mean
from streamgauge.statistics.moments.sum import Sum
from streamgauge.statistics.moments.summary import Summary, SummaryEstimates
from streamgauge.statistics.moments.variance import Variance
from streamgauge.statistics.ordered.axis import Axis
from streamgauge.statistics.ordered.extremes import ExtremeEstimates, Extremes
from streamgauge.statistics.ordered.quantile import Quantile, QuantileEstimates
from streamgauge.statistics.ordered.range_count import RangeCount, RangeRelease
from streamgauge.statistics.run import EventRun
from streamgauge.statistics.statistic import Statistic

__all__ = [
    "ApproxFrequency",
    "Axis",
    "Columns",
    "Count",
    "Distinct",
    "Estimate",
    "EventRun",
    "ExtremeEstimates",
    "Extremes",
    "Histogram",
    "Mean",
    "MechanismConfig",
    "Quantile",
    "QuantileEstimates",
    "RangeCount",
    "RangeRelease",
    "Ranking",
    "Statistic",
    "Sum",
    "Summary",
    "SummaryEstimates",
    "TopK",
    "Variance",
    "private_median",
]
