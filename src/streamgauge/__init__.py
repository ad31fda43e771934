"""Streamgauge: differential privacy on live data streams, with exact noise and exact error bars.

import streamgauge as sg

counter = sg.continual.Binary(sg.Pure(1.0), horizon=1024)
run = counter.start(width=3)
run.step([1, 0, 4])

sg.Pipeline.from_file("clinic.toml").run()
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamgauge import (
        adaptive,
        audit,
        continual,
        localdp,
        noise,
        panprivate,
        postprocess,
        privacy,
        query,
        statistics,
    )
    from streamgauge.pipeline import Pipeline
    from streamgauge.privacy import Approx, Event, Ledger, Pure, Tick, User, WEvent, XAdjacent, Zcdp

__version__ = "0.1.0"
__all__ = [
    "Approx",
    "Event",
    "Ledger",
    "Pipeline",
    "Pure",
    "Tick",
    "User",
    "WEvent",
    "XAdjacent",
    "Zcdp",
    "adaptive",
    "audit",
    "continual",
    "localdp",
    "noise",
    "panprivate",
    "postprocess",
    "privacy",
    "query",
    "statistics",
]
ROOMS = {name for name in __all__ if name.islower()} - {"audit"}


def __getattr__(name: str) -> Any:
    """Rooms are opened when somebody looks into them: `streamgauge --help` need not wait for NumPy."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "audit":
        import streamgauge.audit as room

        return room
    if name == "Pipeline":
        from streamgauge.pipeline import Pipeline

        return Pipeline
    import streamgauge.localdp
    import streamgauge.panprivate
    import streamgauge.postprocess
    import streamgauge.query
    import streamgauge.statistics  # noqa: F401 - with it come adaptive, continual, privacy and noise

    return globals()[name] if name in ROOMS else getattr(globals()["privacy"], name)


def __dir__() -> list[str]:
    return sorted(__all__)
