"""A pipeline at work: ticks and clocks, the runtime, the store."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamgauge.pipeline.options import Options, Progress
    from streamgauge.pipeline.pipeline import Pipeline
    from streamgauge.pipeline.planning import Plan
    from streamgauge.pipeline.report import Report

__all__ = ["Options", "Pipeline", "Plan", "Progress", "Report"]


def __getattr__(name: str) -> Any:
    """Opened when somebody looks: a command that reads the store need not wait for the engine."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from streamgauge.pipeline import options, planning, report
    from streamgauge.pipeline import pipeline as whole

    rooms = {"Options": options, "Progress": options, "Pipeline": whole, "Plan": planning, "Report": report}
    return getattr(rooms[name], name)
