"""A device whose power fails after every act, for a poll with a given request."""

from dataclasses import dataclass, field
from typing import Any

from streamgauge import Pure
from streamgauge.localdp import CountMeanSketch, Device, build_device, wire
from streamgauge.testing.noise import InsecureNoise

SKETCH = CountMeanSketch(Pure(2), width=64)  # no two of its reports are alike by chance
START, TICK, AGAIN = 1_000_000, 10, 540


def collection(again: str = "repeat", most: int = 2, claim: Any = SKETCH, start: int = START) -> dict[str, Any]:
    column = {"on_repeat": again, "reports_per_user": most, "settings": wire.to_settings(claim)}
    return {"name": "poll", "start": start, "tick": TICK, "columns": {"emoji": column}}


@dataclass
class Phone:
    """A device whose power fails after every act. Its messages number reports and keys in their order."""

    kept: list[bytes] = field(default_factory=list)
    reports: list[bytes] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    at: float = START

    def device(self, told: Any) -> Device:
        kept: dict[str, Any] = {"memory": self.kept[-1] if self.kept else None, "persist": self.kept.append}
        now: dict[str, Any] = {"now": lambda: self.at, "noise": InsecureNoise(len(self.kept))}
        return build_device(told, "emoji", max_loss=Pure(99), **kept, **now)

    def due(self, told: Any) -> list[int] | None:
        due = self.device(told).prepare_report(f"a{self.at}")
        return None if due is None else [place(self.reports, due.report), place(self.keys, due.key)]

    def acknowledge(self, told: Any, *accepted: bool) -> None:
        self.device(told).acknowledge(self.keys[-1], *accepted)


def place(known: list[Any], one: Any) -> int:
    if one not in known:
        known.append(one)
    return known.index(one)
