"""What people ask of a stream: counts, sums, means, histograms, ranges, quantiles, with error bars."""

from streamgauge.statistics.axis import Axis
from streamgauge.statistics.count import Count
from streamgauge.statistics.distinct import Distinct
from streamgauge.statistics.estimate import Estimate
from streamgauge.statistics.event_run import EventRun
from streamgauge.statistics.extremes import Extremes
from streamgauge.statistics.extremes_seen import ExtremesSeen
from streamgauge.statistics.histogram import Histogram
from streamgauge.statistics.mean import Mean
from streamgauge.statistics.quantile import Quantile
from streamgauge.statistics.quantiles import Quantiles
from streamgauge.statistics.range_count import RangeCount
from streamgauge.statistics.ranges import Ranges
from streamgauge.statistics.ranking import Ranking
from streamgauge.statistics.settings import Undeclared
from streamgauge.statistics.statistic import Statistic
from streamgauge.statistics.sum import Sum
from streamgauge.statistics.summaries import Summaries
from streamgauge.statistics.summary import Summary
from streamgauge.statistics.told import Columns
from streamgauge.statistics.top_k import TopK
from streamgauge.statistics.tuned import Tuned
from streamgauge.statistics.variance import Variance

__all__ = [
    "Axis",
    "Columns",
    "Count",
    "Distinct",
    "Estimate",
    "EventRun",
    "Extremes",
    "ExtremesSeen",
    "Histogram",
    "Mean",
    "Quantile",
    "Quantiles",
    "RangeCount",
    "Ranges",
    "Ranking",
    "Statistic",
    "Sum",
    "Summaries",
    "Summary",
    "TopK",
    "Tuned",
    "Undeclared",
    "Variance",
]
