"""A mechanism that a statistic is asked to count with: a class, or one with settings of its own."""

from dataclasses import dataclass, fields
from typing import Any

from streamgauge.continual import Claim, Mechanism


@dataclass(frozen=True)
class Tuned:
    """A mechanism with settings; what the statistic decides (loss, bound, unit, window) it decides.

    >>> from streamgauge import Pure, continual, statistics
    >>> tuned = Tuned.of(continual.Kary, branching=13)
    >>> statistics.Count(Pure(1), horizon=1000, mechanism=tuned).counter.branching
    13
    """

    mechanism: type[Claim[Any, Any]]
    settings: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, mechanism: type[Claim[Any, Any]], **settings: Any) -> "Tuned":
        return cls(mechanism, tuple(sorted(settings.items())))

    @classmethod
    def like(cls, claim: Claim[Any, Any]) -> "Tuned":
        """The mechanism of a claim, with all settings that are its own and given."""
        made: Any = claim
        own = {field.name: getattr(made, field.name) for field in fields(made) if field.name not in DECIDED}
        return cls.of(type(claim), **{name: value for name, value in own.items() if value is not None})

    def __post_init__(self) -> None:
        if not (isinstance(self.mechanism, type) and issubclass(self.mechanism, Claim)):
            rooms = "continual or adaptive"
            raise ValueError(f"mechanism must be one of the mechanisms in {rooms}, got {self.mechanism!r}")
        claim: Any = self.mechanism
        own = {field.name for field in fields(claim)} - DECIDED
        for name, _ in self.settings:
            if name not in own:
                known = ", ".join(sorted(own)) or "none"
                raise ValueError(f"settings of {claim.__name__} must be among {known}, got {name}")


DECIDED = {"loss", "horizon", "last_tick", "bound", "unit", "pan_private", "window", "half_life"}
DECIDED |= {"exponent", "open_ticks"}
DECIDED |= {"signed", "lowest"}  # by whether what is counted can be negative
AskedMechanism = type[Claim[Any, Any]] | Tuned | None


def tuned(asked: "type[Claim[Any, Any]] | Tuned") -> Tuned:
    """A class alone is one without settings."""
    return asked if isinstance(asked, Tuned) else Tuned(asked)


def linear_of(counter: Claim[Any, Any], statistic: str) -> Mechanism[Any]:
    """A counter whose noise has a law apart from the data; any other is refused."""
    if not isinstance(counter, Mechanism):
        raise ValueError(f"mechanism must be linear for {statistic}, got {type(counter).__name__}")
    return counter
