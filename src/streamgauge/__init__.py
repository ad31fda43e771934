"""Differential privacy on live data streams, with exact noise and error bars.

    import streamgauge as sg

    counter = sg.continual.Binary(sg.Pure(1.0), horizon=1024)
    run = counter.start(width=3)
    run.step([1, 0, 4])

    sg.Pipeline.from_file("clinic.toml").run()

Packages, from the bottom up. A package imports only packages above it in this list:

    noise          exact noise
    clock          the injected clock
    files          durable writes and file locks
    memory         wiping of secrets
    optional       optional dependencies
    registry       factories by name, built in or of other packages
    postprocess    post-processing of releases
    prime_field    arithmetic modulo 2^61 - 1
    privacy        losses, units, the ledger
    testing        noise and clocks for tests
    continual      counters
    adaptive       PeGaSus, w-event mechanisms, sparse counters
    panprivate     tables of users whose memory is private
    localdp        the local model
    sketches       sketches of domains that cannot be listed
    statistics     count to top k
    robust         sketches under an adversary who sees the answers
    mapreduce      analysts' code before statistics
    config         the pipeline file
    records        records: lines, fields, tallies
    sql            the dialect
    releases       release schemas, values and tables
    plan           the planner
    interfaces     protocols of sources and sinks
    sources        inputs of events
    engines        from events to exact sums
    store          the durable store
    sinks          outputs of releases
    runtime        runs
    server         HTTP API and live page
    audit          attacks on claims
    cli            the command line
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamgauge import (
        adaptive,
        audit,
        config,
        continual,
        localdp,
        mapreduce,
        noise,
        panprivate,
        postprocess,
        privacy,
        robust,
        sketches,
        statistics,
    )
    from streamgauge.privacy import Approx, Event, IntegerZcdp, Ledger, Pure, Tick, User, WEvent, XAdjacent, Zcdp
    from streamgauge.runtime import Pipeline

__version__ = "0.1.0"
__all__ = [
    "Approx",
    "Event",
    "IntegerZcdp",
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
    "config",
    "continual",
    "localdp",
    "mapreduce",
    "noise",
    "panprivate",
    "postprocess",
    "privacy",
    "robust",
    "sketches",
    "statistics",
]


def __getattr__(name: str) -> Any:
    """Import a package when it is first used: `streamgauge --help` does not wait for NumPy."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name.islower():
        return import_module(f"{__name__}.{name}")
    return getattr(import_module(f"{__name__}.{'runtime' if name == 'Pipeline' else 'privacy'}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
