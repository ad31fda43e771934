"""Every estimator of the room `panprivate`, over a universe of one or two users, found by looking.

A class that needs a setting which is not known here is an error, not an omission.
"""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any

from streamgauge import panprivate
from streamgauge.audit.seized import OFTEN, SeizedSubject
from streamgauge.audit.seized_counters import one_slot
from streamgauge.privacy import Pure

Settings = Mapping[str, Any]
ALONE: Settings = {"universe": 1}

SETTINGS: dict[str, Sequence[Settings]] = {
    "Density": (
        {},
        {"law": "paper"},
        {"releases": 2},
        {"intrusions": 1},
        {"intrusions": 1, "releases": 2, "split": "1/3"},
        {"replace": True, "universe": 2},
        {"hashed": True},
        {"hashed": "before"},
    ),
    "MultiplicativeDensity": ({"universe": 4, "shrink": 2, "smallest": 2},),
    "CroppedMean": ({"limit": 2}, {"limit": 2, "intrusions": 1}, {"limit": 2, "releases": 2}),
    "HeavyFraction": (
        {"at_least": 2},
        {"at_least": 2, "law": "paper"},
        {"at_least": 2, "hashed": True},
        {"at_least": 2, "intrusions": 1},
    ),
    "Incidence": ({"exactly": 1}, {"exactly": 0, "releases": 2}, {"exactly": 1, "intrusions": 1}),
    "ModularIncidence": ({"modulus": 3}, {"modulus": 2, "intrusions": 2}, {"modulus": 2, "releases": 2}),
    "ContinualDensity": (
        {},
        {"law": "paper"},
        {"intrusions": 1},
        {"replace": True, "universe": 2},
        {"hashed": True, "universe": 2},  # the cells of user 0 and of -1, were it a user, are two
        {"counter": one_slot()},
        {"counter": one_slot(), "intrusions": 1},
    ),
}
# Its tables have too many ways for a user who comes twice at a time, and for announced intrusions.
ONCE = ("MultiplicativeDensity",)


def estimators() -> dict[str, type[Any]]:
    """All that can be estimated of users: what has a loss and a universe, and can be started."""
    found = {name: getattr(panprivate, name) for name in panprivate.__all__}
    return {name: cls for name, cls in found.items() if is_estimator(cls)}


def is_estimator(cls: Any) -> bool:
    claims = inspect.isclass(cls) and {"loss", "universe"} <= set(getattr(cls, "__dataclass_fields__", ()))
    return claims and hasattr(cls, "start") and not inspect.isabstract(cls)


def seized_claims(cls: type[Any], loss: Pure) -> Iterator[tuple[SeizedSubject, Settings]]:
    """With all settings that are tried."""
    needed = {each.name for each in fields(cls) if each.default is MISSING}
    for settings in SETTINGS.get(cls.__name__, ({},)):
        if unknown := needed - {"loss", "universe", *settings}:
            raise TypeError(f"settings of {cls.__name__} must be in the catalogue, got none of {unknown}")
        often = 1 if cls.__name__ in ONCE else OFTEN
        yield SeizedSubject(cls(loss, **{**ALONE, **settings}), often=often), settings
