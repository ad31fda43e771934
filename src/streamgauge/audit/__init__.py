"""Attacks on privacy claims: losses are computed if possible, and measured by experiment.

subject        interface of a subject
neighbours     neighbouring streams
verdict        the result of an audit
catalogue      every claim of the package, as subjects
report         `audit` of one subject and of many
exact/         losses by computation
attack/        losses by experiment
subjects/      the subjects of each family
pipeline/      whole pipeline files
broken/        mechanisms that must be condemned

import streamgauge as sg

sg.audit.audit_mechanism(sg.continual.Binary(sg.Pure(1), horizon=15), 15).measurement.amount      0.96
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamgauge.audit.attack.measure import measure
    from streamgauge.audit.exact.kernels import Kernel, WorstRatio, one_event, one_person, worst_ratio
    from streamgauge.audit.exact.worst_case import WorstCase, worst_neighbour
    from streamgauge.audit.pipeline.audit import audit_pipeline
    from streamgauge.audit.report import audit, audit_mechanism
    from streamgauge.audit.subject import CallableSubject, ComputableSubject, Pair, Score, Subject
    from streamgauge.audit.subjects.adversaries import Adversary, AdversarySubject, Ambush, Echo
    from streamgauge.audit.subjects.mechanisms import ExecutionModeSubject, MechanismSubject
    from streamgauge.audit.subjects.pan_private import Intruder, PanPrivateSubject, worst_announced, worst_intrusion
    from streamgauge.audit.subjects.statistics import PublishedSubject, StatisticSubject
    from streamgauge.audit.verdict import Measurement, Verdict

__all__ = [
    "Adversary",
    "AdversarySubject",
    "Ambush",
    "CallableSubject",
    "ComputableSubject",
    "Echo",
    "ExecutionModeSubject",
    "Intruder",
    "Kernel",
    "Measurement",
    "MechanismSubject",
    "Pair",
    "PanPrivateSubject",
    "PublishedSubject",
    "Score",
    "StatisticSubject",
    "Subject",
    "Verdict",
    "WorstCase",
    "WorstRatio",
    "audit",
    "audit_mechanism",
    "audit_pipeline",
    "measure",
    "one_event",
    "one_person",
    "worst_announced",
    "worst_intrusion",
    "worst_neighbour",
    "worst_ratio",
]


MODULES = (
    "exact.kernels",
    "report",
    "subject",
    "subjects.adversaries",
    "subjects.mechanisms",
    "subjects.pan_private",
    "subjects.statistics",
    "verdict",
)


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: a command that audits nothing need not wait for SciPy."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    paths = ("pipeline.audit",) if name == "audit_pipeline" else MODULES  # the engine, which no other name needs
    modules = (import_module(f"{__name__}.{path}") for path in paths)
    return next(getattr(module, name) for module in modules if hasattr(module, name))


def __dir__() -> list[str]:
    return sorted(__all__)
