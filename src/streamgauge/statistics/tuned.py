"""A mechanism that a statistic is asked to count with: a class, or one with settings of its own."""

from dataclasses import dataclass, fields
from typing import Any

from streamgauge.continual import Mechanism


@dataclass(frozen=True)
class Tuned:
    """A mechanism with settings; what the statistic decides (loss, bound, unit, window) it decides.

    >>> from streamgauge import Pure, continual, statistics
    >>> tuned = Tuned.of(continual.Kary, branching=13)
    >>> statistics.Count(Pure(1), horizon=1000, mechanism=tuned).counter.branching
    13
    """

    mechanism: type[Mechanism[Any]]
    settings: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, mechanism: type[Mechanism[Any]], **settings: Any) -> "Tuned":
        return cls(mechanism, tuple(sorted(settings.items())))

    def __post_init__(self) -> None:
        if not (isinstance(self.mechanism, type) and issubclass(self.mechanism, Mechanism)):
            raise ValueError(f"mechanism must be one of the mechanisms in continual, got {self.mechanism!r}")
        claim: Any = self.mechanism
        own = {field.name for field in fields(claim)} - DECIDED
        for name, _ in self.settings:
            if name not in own:
                known = ", ".join(sorted(own)) or "none"
                raise ValueError(f"settings of {claim.__name__} must be among {known}, got {name}")


DECIDED = {"loss", "horizon", "last_tick", "bound", "unit", "pan_private", "window", "half_life"}
AskedMechanism = type[Mechanism[Any]] | Tuned | None


def tuned(asked: "type[Mechanism[Any]] | Tuned") -> Tuned:
    """A class alone is one without settings."""
    return asked if isinstance(asked, Tuned) else Tuned(asked)
