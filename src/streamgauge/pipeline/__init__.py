"""A pipeline at work: ticks and clocks, the runtime, the store."""

from streamgauge.pipeline.options import Options, Progress
from streamgauge.pipeline.pipeline import Pipeline
from streamgauge.pipeline.planning import Plan
from streamgauge.pipeline.report import Report

__all__ = ["Options", "Pipeline", "Plan", "Progress", "Report"]
