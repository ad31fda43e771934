"""Mechanism that a statistic counts with: a class, or one with its own settings."""

from dataclasses import dataclass, fields
from typing import Any

from streamgauge.continual import LinearMechanism, Mechanism


@dataclass(frozen=True)
class MechanismConfig:
    """Mechanism with settings. The statistic sets loss, bound, unit and window.

    >>> from streamgauge import Pure, continual, statistics
    >>> config = MechanismConfig.build(continual.Kary, branching=13)
    >>> statistics.Count(Pure(1), horizon=1000, mechanism=config).counter.branching
    13
    """

    mechanism: type[Mechanism[Any, Any]]
    settings: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def build(cls, mechanism: type[Mechanism[Any, Any]], **settings: Any) -> "MechanismConfig":
        return cls(mechanism, tuple(sorted(settings.items())))

    @classmethod
    def from_mechanism(cls, claim: Mechanism[Any, Any]) -> "MechanismConfig":
        """Return the mechanism of a claim, with all given settings of its own."""
        made: Any = claim
        own = {field.name: getattr(made, field.name) for field in fields(made) if field.name not in DECIDED_SETTINGS}
        return cls.build(type(claim), **{name: value for name, value in own.items() if value is not None})

    def __post_init__(self) -> None:
        if not (isinstance(self.mechanism, type) and issubclass(self.mechanism, Mechanism)):
            rooms = "continual or adaptive"
            raise ValueError(f"mechanism must be one of the mechanisms in {rooms}, got {self.mechanism!r}")
        claim: Any = self.mechanism
        own = {field.name for field in fields(claim)} - DECIDED_SETTINGS
        for name, _ in self.settings:
            if name not in own:
                known = ", ".join(sorted(own)) or "none"
                raise ValueError(f"settings of {claim.__name__} must be among {known}, got {name}")


DECIDED_SETTINGS = {"loss", "horizon", "last_tick", "bound", "unit", "pan_private", "window", "half_life"}
DECIDED_SETTINGS |= {"exponent", "open_ticks"}
DECIDED_SETTINGS |= {"signed", "lowest"}  # decided by whether the counted numbers can be negative
MechanismSpec = type[Mechanism[Any, Any]] | MechanismConfig | None


def to_config(mechanism: "type[Mechanism[Any, Any]] | MechanismConfig") -> MechanismConfig:
    """Return the configuration of a mechanism. A class alone has no settings."""
    return mechanism if isinstance(mechanism, MechanismConfig) else MechanismConfig(mechanism)


def require_linear(counter: Mechanism[Any, Any], statistic: str) -> LinearMechanism[Any]:
    """Return a counter whose noise law is independent of the data; reject others."""
    if not isinstance(counter, LinearMechanism):
        raise ValueError(f"mechanism must be linear for {statistic}, got {type(counter).__name__}")
    return counter
