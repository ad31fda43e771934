"""Every claim of the local model, found by looking: no list to forget one on."""

import importlib
import inspect
import pkgutil
from dataclasses import MISSING, fields
from typing import Any

import pytest

import streamgauge as sg
from streamgauge import localdp
from streamgauge.localdp.mechanism import LocalMechanism

TINY: dict[str, Any] = {"hashes": 1, "width": 2, "seed": 4, "items": ("a", "b", "c")}  # a seed that parts them
MORE: dict[str, Any] = {"LocalHashing": {"width": 3}, "HeavyHitters": {"alphabet": "abc", "length": 2, "step": 1}}


def oracles_shown() -> list[type[Any]]:
    named = [getattr(localdp, name) for name in localdp.__all__]
    return [each for each in named if inspect.isclass(each) and issubclass(each, LocalMechanism)]


def oracles_written() -> set[type[Any]]:
    """Return all concrete claims of the package's modules."""
    modules = [
        importlib.import_module(each.name) for each in pkgutil.walk_packages(localdp.__path__, f"{localdp.__name__}.")
    ]
    classes = {cls for module in modules for _, cls in inspect.getmembers(module, inspect.isclass)}
    return {cls for cls in classes if issubclass(cls, LocalMechanism) and not inspect.isabstract(cls)}


def tiny(cls: type[Any], **more: Any) -> Any:
    """Return the claim with known settings. A claim that is unknown here makes the tests fail: there is no opt-out."""
    named = {each.name for each in fields(cls)}
    unknown = {each.name for each in fields(cls) if each.default is MISSING} - {"loss", *TINY}
    assert not unknown, f"{cls.__name__} needs {unknown}: add them to TINY"
    settings = {name: value for name, value in TINY.items() if name in named}
    return cls(**{"loss": sg.Pure(1), **settings, **MORE.get(cls.__name__, {}), **more})


every_oracle = pytest.mark.parametrize("cls", oracles_shown(), ids=lambda cls: cls.__name__)
