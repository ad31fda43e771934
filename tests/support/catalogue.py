"""Every mechanism of the package, found by looking: no list to forget one on.

A class that needs a setting which is not known here makes its tests fail: there is no opt-out.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields
from fractions import Fraction
from types import ModuleType
from typing import Any

import pytest

import streamgauge as sg
from streamgauge import continual
from streamgauge.continual import Binary, BufferedToeplitz, Kary, LinearMechanism, SmoothBinary

LOSSES = {
    sg.Pure: sg.Pure(Fraction(1, 2)),
    sg.Zcdp: sg.Zcdp(Fraction(1, 8)),
    sg.Approx: sg.Approx(1, Fraction(1, 10**6)),
    sg.IntegerZcdp: sg.IntegerZcdp(Fraction(1, 8)),
}
SETTINGS: dict[str, list[dict[str, Any]]] = {
    "Kary": [{}, {"branching": 3}, {"branching": 2}, {"branching": 3, "open_ticks": True}],
    "Binary": [{}, {"refine": True}],
    "Hybrid": [
        {},
        {"inner": Binary, "growth": 2, "first": 1, "split": "1/2"},
        {"inner": Kary, "growth": 3},
        {"inner": Kary, "growth": 3, "open_ticks": True},
        {"inner": SmoothBinary, "growth": 4},
        {"inner": BufferedToeplitz, "growth": 8},
    ],
    "BridgeTree": [{}, {"radices": (3, 2)}, {"radices": (2, 2, 2)}, {"radices": (32,)}],
    "EndlessBridge": [{}, {"first": 2, "growth": 2, "split": "1/2"}, {"first": 7, "growth": 3}],
    "SubtractiveTree": [{}, {"branching": 3}],
    "PastBridge": [{}, {"radices": (2, 2)}],
    "TwoPart": [*({}, {"radices": (2, 2)}, {"radices": (2, 2), "open_ticks": True}), {"open_ticks": True}],
    "TwoLevel": [{}, {"block_size": 4}],
    "WindowSum": [
        *({"window": 1}, {"window": 7}, {"window": 8, "branching": 2}, {"window": 30}),
        {"window": 8, "branching": 2, "open_ticks": True},
    ],
    "WindowBridge": [{"window": 1}, {"window": 7}, {"window": 8, "radices": (3, 2)}, {"window": 30}],
    "ExponentialDecay": [{"decay": "9/10"}, {"decay": "1/2"}, {"decay": "999/1000"}],
    "PolynomialDecay": [{"exponent": 1}, {"exponent": "1/2"}, {"exponent": "1/100"}],
    "BufferedToeplitz": [{}, {"normalised": True}],
    "UnboundedToeplitz": [{}],
}


AUDIT = "streamgauge.audit."


def claims(package: ModuleType, root: type[Any]) -> list[type[Any]]:
    """Return all concrete claims of a package, found by importing its modules; none of the audit's."""
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
    found, queue = set(), [root]
    while queue:
        cls = queue.pop()
        queue += cls.__subclasses__()
        ours = cls.__module__.startswith("streamgauge.") and not cls.__module__.startswith(AUDIT)
        if ours and not inspect.isabstract(cls):
            found.add(cls)
    return sorted(found, key=lambda cls: cls.__name__)


def mechanisms() -> list[type[Any]]:
    return claims(continual, LinearMechanism)


def exported() -> list[type[Any]]:
    return [cls for cls in mechanisms() if cls.__name__ in continual.__all__]


@dataclass(frozen=True)
class Case:
    """A mechanism with all its settings but the horizon."""

    cls: type[Any]  # of a LinearMechanism
    loss: Any
    settings: tuple[tuple[str, Any], ...]

    @property
    def unbounded(self) -> bool:
        """Return whether the claim can be made for a stream without an end."""
        try:
            return self.claim(None).horizon is None
        except (ValueError, TypeError):
            return False

    def claim(self, horizon: int | None, **more: Any) -> LinearMechanism[Any]:
        names = {field.name for field in fields(self.cls)}
        ends: dict[str, Any] = {
            name: horizon for name in ("horizon", "last_tick") if name in names and horizon is not None
        }
        made: LinearMechanism[Any] = self.cls(self.loss, **(ends | dict(self.settings) | more))
        return made

    def __str__(self) -> str:
        shown = [self.loss.currency, *(f"{k}={getattr(v, '__name__', v)}" for k, v in self.settings)]
        return f"{self.cls.__name__}({', '.join(shown)})"


def cases() -> Iterator[Case]:
    for cls in exported():
        names = {field.name: field for field in fields(cls)}
        for settings in SETTINGS.get(cls.__name__, [{}]):
            unknown = [
                name
                for name, field in names.items()
                if field.default is MISSING and name not in {"loss", "horizon", *settings}
            ]
            assert not unknown, f"{cls.__name__} needs {unknown}: add them to SETTINGS"
            for kind in cls.LOSSES[: 1 if settings.get("open_ticks") else None]:  # nothing of it is a currency's
                for pan in [False, True] if "pan_private" in names else [None]:
                    chosen = settings if pan is None else {**settings, "pan_private": pan}
                    case = Case(cls, LOSSES[kind], tuple(chosen.items()))
                    if keeps(case):
                        yield case


def keeps(case: Case) -> bool:
    """Return whether the claim can be made. A refusal must be a message of the package."""
    try:
        case.claim(20)
    except ValueError as refusal:
        if any(f"{word} must be" in str(refusal) for word in ("loss", "pan_private", "inner")):
            return False
        raise
    return True


CASES = list(cases())
KEPT = [case for case in CASES if case.loss.currency != "approximate"]  # which is kept as a rho
every_case = pytest.mark.parametrize("case", CASES, ids=str)
every_kept_case = pytest.mark.parametrize("case", KEPT, ids=str)
