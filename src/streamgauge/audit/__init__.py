"""What a claim looks like when it is attacked: computed where it can be, measured by experiment.

import streamgauge as sg

sg.audit.audit_mechanism(sg.continual.Binary(sg.Pure(1), horizon=15), 15).measured.amount      0.96
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamgauge.audit.adapters import Callable
    from streamgauge.audit.adaptive import AdaptiveSubject, Adversary, Ambush, Echo
    from streamgauge.audit.auditing import audit, audit_mechanism
    from streamgauge.audit.driven import DrivenSubject
    from streamgauge.audit.exact import Worst, worst_neighbour
    from streamgauge.audit.intruders import worst_announced, worst_intrusion
    from streamgauge.audit.kernels import Kernel, WorstRatio, one_event, one_person, worst_ratio
    from streamgauge.audit.measuring import measure
    from streamgauge.audit.mechanisms import MechanismSubject
    from streamgauge.audit.pan_private import PanPrivateSubject
    from streamgauge.audit.pipelines import audit_pipeline
    from streamgauge.audit.stated import StatedSubject
    from streamgauge.audit.statistics import PublishedSubject, StatisticSubject
    from streamgauge.audit.subject import Computed, Pair, Score, Subject
    from streamgauge.audit.verdict import Measured, Verdict

__all__ = [
    "AdaptiveSubject",
    "Adversary",
    "Ambush",
    "Callable",
    "Computed",
    "DrivenSubject",
    "Echo",
    "Kernel",
    "Measured",
    "MechanismSubject",
    "Pair",
    "PanPrivateSubject",
    "PublishedSubject",
    "Score",
    "StatedSubject",
    "StatisticSubject",
    "Subject",
    "Verdict",
    "Worst",
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


def __getattr__(name: str) -> Any:
    """Opened when somebody looks: a command that audits nothing need not wait for SciPy."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "audit_pipeline":  # opens the engine, which no other name needs
        from streamgauge.audit.pipelines import audit_pipeline

        return audit_pipeline
    from streamgauge.audit import (
        adapters,
        adaptive,
        auditing,
        driven,
        intruders,
        kernels,
        statistics,
        verdict,
    )

    rooms = (adapters, adaptive, auditing, driven, intruders, kernels, statistics, verdict)
    return next(getattr(room, name) for room in rooms if hasattr(room, name))


def __dir__() -> list[str]:
    return sorted(__all__)
