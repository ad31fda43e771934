"""The branching of least mean variance over the horizon, by trying all: once, as claims never change."""

from dataclasses import fields
from functools import lru_cache
from typing import Any

from streamgauge.continual.mechanism import Mechanism


def best_branching(tree: Mechanism[Any], branchings: range) -> int:
    """The best for a tree whose other settings are all in place."""
    claim: Any = tree  # a dataclass, as all claims are
    others = tuple((field.name, getattr(tree, field.name)) for field in fields(claim))
    return _best(type(tree), tuple(setting for setting in others if setting[0] != "branching"), branchings)


@lru_cache(maxsize=256)
def _best(tree: Any, settings: tuple[tuple[str, Any], ...], branchings: range) -> int:
    made = [tree(**dict(settings), branching=branching) for branching in branchings]
    best: int = min(made, key=lambda tried: tried.mean_variance(tried.horizon or 1)).branching
    return best
