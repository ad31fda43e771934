"""Every pan-private estimator of the package, found by looking: no list to forget one on."""

import importlib
import inspect
import pkgutil
from dataclasses import MISSING, fields
from typing import Any

import pytest

import streamgauge as sg
from streamgauge import panprivate

SETTINGS: dict[str, dict[str, Any]] = {
    "CroppedMean": {"limit": 3},
    "HeavyFraction": {"at_least": 2},
    "Incidence": {"exactly": 2},
    "ModularIncidence": {"modulus": 5},
    "MultiplicativeDensity": {"smallest": 4},
}


def estimators_found() -> list[type[Any]]:
    """Return all dataclasses of the package that have a loss and a universe, and can be started."""
    modules = [
        importlib.import_module(each.name)
        for each in pkgutil.walk_packages(panprivate.__path__, f"{panprivate.__name__}.")
    ]
    found = {cls for module in modules for _, cls in inspect.getmembers(module, inspect.isclass) if is_estimator(cls)}
    return sorted(found, key=lambda cls: cls.__name__)


def is_estimator(cls: type[Any]) -> bool:
    named = {"loss", "universe"} <= set(getattr(cls, "__dataclass_fields__", ()))
    return named and hasattr(cls, "start") and not inspect.isabstract(cls)


def claim_of(cls: type[Any], **more: Any) -> Any:
    """Return the claim with known settings. A claim that is unknown here makes the tests fail: there is no opt-out."""
    settings = SETTINGS.get(cls.__name__, {})
    unknown = {each.name for each in fields(cls) if each.default is MISSING} - {"loss", "universe", *settings}
    assert not unknown, f"{cls.__name__} needs {unknown}: add them to SETTINGS"
    return cls(**{"loss": sg.Pure(2), "universe": 40, **settings, **more})


every_estimator = pytest.mark.parametrize("cls", estimators_found(), ids=lambda cls: cls.__name__)
