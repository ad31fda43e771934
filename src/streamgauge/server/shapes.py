"""Shapes of releases, made as they are asked for: of the few that were asked for last, kept.

**Privacy.** Who asks has to have the acts that have left: of a release that is in none of them there is no
shape, whoever knew it before.
"""

from collections import OrderedDict
from collections.abc import Mapping
from threading import Lock
from typing import Any

from streamgauge.query.planner import shape_of
from streamgauge.query.shapes import Shape
from streamgauge.server.known_acts import Acts, ByActs

FEW = 64  # each has as many places as its release has groups


def charges_of(acts: Acts) -> dict[str, Mapping[str, Any]]:
    """What was entered when each release was charged."""
    return {act.body["release"]: act.body for act in acts if act.kind == "charge"}


class Shapes:
    """Of the releases of one store, whose names are taken for ever. Any thread may ask."""

    def __init__(self) -> None:
        self._charges = ByActs(charges_of)
        self._kept: OrderedDict[str, Shape] = OrderedDict()
        self._lock = Lock()

    def of(self, name: str, acts: Acts) -> Shape:
        """The shape of a release; raises KeyError if these acts do not charge it."""
        charge = self._charges(acts)[name]
        with self._lock:
            shape = self._kept.pop(name, None) or shape_of(name, charge["layout"])
            self._kept[name] = shape
            if len(self._kept) > FEW:
                self._kept.popitem(last=False)
        return shape
