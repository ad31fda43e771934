"""Every mechanism that adapts to its data, found by looking: no list to forget one on.

A class that needs a setting which is not known here makes its tests fail: there is no opt-out.
"""

from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge import adaptive
from streamgauge.adaptive import AdaptiveMechanism, AdaptiveRelease
from streamgauge.postprocess import Hierarchy
from streamgauge.privacy import Loss
from tests.support.catalogue import claims

HALF = sg.Pure(Fraction(1, 2))
TREE = Hierarchy([-1, 0, 0, 1, 1])
W = sg.WEvent(3)
SETTINGS: dict[str, list[dict[str, Any]]] = {
    "Pegasus": [
        {},
        {"window": "sliding 4", "smoother": "average", "split": "1/2"},
        {"window": "running", "smoother": "james_stein", "max_group_ticks": 4, "theta": 0},
        {"window": "sliding 7", "block": 3, "coarse": "1/3"},
    ],
    "PegasusHierarchy": [
        {"hierarchy": TREE},
        {"hierarchy": TREE, "prune": None, "window": "sliding 3", "smoother": "average"},
        {"hierarchy": TREE, "lowest": None, "window": "running"},
    ],
    "WEventUniform": [{"unit": W}],
    "WEventSample": [{"unit": W}],
    "BudgetDistribution": [{"unit": W}],
    "BudgetAbsorption": [{"unit": W}],
    "CascadingBuffers": [{"levels": 2, "kappa": 1}, {"levels": 1, "kappa": 1, "pan_private": False}],
    "SparseCounter": [{}, {"threshold": 3, "signed": False}],
}


def adapting() -> list[type[AdaptiveMechanism[Any]]]:
    return claims(adaptive, AdaptiveMechanism)


@dataclass(frozen=True)
class Adapting:
    """A mechanism with all its settings but the horizon."""

    cls: type[AdaptiveMechanism[Any]]
    settings: tuple[tuple[str, Any], ...]

    def claim(self, horizon: int | None, loss: Loss = HALF, **more: Any) -> AdaptiveMechanism[Any]:
        return self.cls(loss, **{"horizon": horizon, **dict(self.settings), **more})

    @property
    def width(self) -> int:
        """Return the number of groups of a run."""
        return len(TREE.leaves) if "hierarchy" in dict(self.settings) else 3

    def __str__(self) -> str:
        shown = [f"{k}={v}" for k, v in self.settings if k != "hierarchy"]
        return f"{self.cls.__name__}({', '.join(shown)})"


def cases() -> Iterator[Adapting]:
    for cls in adapting():
        for settings in SETTINGS.get(cls.__name__, [{}]):
            needed = {field.name for field in fields(cls) if field.default is MISSING}
            unknown = needed - {"loss", "horizon", *settings}
            assert not unknown, f"{cls.__name__} needs {unknown}: add them to SETTINGS"
            yield Adapting(cls, tuple(settings.items()))


def truth(claim: AdaptiveMechanism[Any], values: np.ndarray, lowest: float = -np.inf) -> np.ndarray:
    """Return the true value that each release estimates, for values (ticks, width)."""
    counted = values if lowest < 0 else np.maximum(values, 0)
    hierarchy = getattr(claim, "hierarchy", None)
    nodes = counted if hierarchy is None else hierarchy.sum_leaves(counted)
    window = getattr(claim, "window", claim.WINDOWS[0])
    sums: np.ndarray = np.cumsum(nodes, axis=0)
    if window == "running":
        return sums
    size = 1 if window == "each" else int(window.split()[1])
    latest: np.ndarray = sums - np.concatenate([np.zeros_like(sums[:size]), sums[:-size]])[: len(sums)]
    return latest


def shown(release: AdaptiveRelease) -> list[np.ndarray]:
    """All arrays of a release, and how wide its intervals are at the last tick."""
    last = release.select_ticks(slice(-1, None)) if len(release.error_bounds) > 1 else release
    return [*(getattr(release, name) for name in release.array_names), release.stddev, *last.interval(0.9)]


CASES = list(cases())
every_adapting = pytest.mark.parametrize("case", CASES, ids=str)
