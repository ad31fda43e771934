"""Mechanisms that look, privately, at their data to spend noise where it matters."""

from streamgauge.adaptive.adaptive import Adaptive
from streamgauge.adaptive.bars import Bar, Unknown
from streamgauge.adaptive.released import Released

__all__ = ["Adaptive", "Bar", "Released", "Unknown"]
