"""What a run tells the curator when it ends."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from streamgauge.pipeline.words import counted
from streamgauge.query.released import Released


@dataclass
class Report:
    """How much was published: public, since it follows from declarations and the clock."""

    ticks: dict[str, int] = field(default_factory=dict)  # by release

    def add(self, released: Sequence[Released]) -> None:
        for each in released:
            name = each.shape.release
            self.ticks[name] = self.ticks.get(name, 0) + 1

    def __str__(self) -> str:
        if not self.ticks:
            return "nothing was left to publish"
        return "\n".join(f"{name}: {counted(ticks, 'tick')} published" for name, ticks in self.ticks.items())
