"""Streamgauge: differential privacy on live data streams, with exact noise and exact error bars.

import streamgauge as sg

counter = sg.continual.Binary(sg.Pure(1.0), horizon=1024)
run = counter.start(width=3)
run.step([1, 0, 4])
"""

from streamgauge import continual, noise, postprocess, privacy, statistics
from streamgauge.privacy import Approx, Event, Ledger, Pure, Tick, User, WEvent, Zcdp

__version__ = "0.1.0"
__all__ = [
    "Approx",
    "Event",
    "Ledger",
    "Pure",
    "Tick",
    "User",
    "WEvent",
    "Zcdp",
    "continual",
    "noise",
    "postprocess",
    "privacy",
    "statistics",
]
