"""Mechanism that a statistic counts with: a class, or one with its own settings."""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from streamgauge.adaptive import AdaptiveMechanism
from streamgauge.continual import LinearMechanism, Mechanism
from streamgauge.continual.choice import parse_window
from streamgauge.privacy import IntegerZcdp, Loss

if TYPE_CHECKING:
    from streamgauge.statistics.statistic import Statistic


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
        """Return the mechanism of a claim, with all given settings."""
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


def build_configured_counter(statistic: "Statistic[Any]", config: MechanismConfig, loss: Loss) -> Mechanism[Any, Any]:
    """Return the mechanism with its own settings and those of the statistic."""
    claim: Any = config.mechanism
    names = {field.name for field in fields(claim)}
    if statistic.open_ticks and "open_ticks" not in names:
        raise ValueError(claim.open_ticks_refusal())
    decided = {
        "unit": statistic.counter_unit,
        "pan_private": statistic.pan_private,
        "open_ticks": statistic.open_ticks,
        "bound": statistic.tick_sensitivity,
        "horizon": statistic.horizon,
        "signed": statistic.is_signed,
        "lowest": None if statistic.is_signed else 0,
        **build_window_settings(statistic.window, claim),
    }
    if statistic.horizon is not None:
        decided["last_tick"] = statistic.horizon
    known = {name: value for name, value in decided.items() if name in names}
    if isinstance(loss, IntegerZcdp) and IntegerZcdp not in claim.LOSSES:
        loss = loss.sufficient_loss
    made: Mechanism[Any, Any] = claim(loss, **known | dict(config.settings))
    return made


def check_alternating(statistic: "Statistic[Any]", counter: Mechanism[Any, Any]) -> Mechanism[Any, Any]:
    """Return a counter; reject one whose cost of alternating moves is not proved, if a unit has such."""
    if statistic.alternates and not (isinstance(counter, LinearMechanism) and counter.bounds_alternating):
        rule = "mechanism must be one whose columns overlap less with distance where items leave"
        raise ValueError(f"{rule}, got {counter!r}")
    return counter


def build_window_settings(window: str, claim: Any) -> dict[str, Any]:
    """Return a window as settings of a named mechanism."""
    kind, wanted, size = parse_window(window)
    names = {field.name for field in fields(claim)}
    if issubclass(claim, AdaptiveMechanism):
        return _build_adaptive_window(window, kind, claim, names)
    other = names & {"window", "half_life", "exponent"} - {wanted}
    if (wanted and wanted not in names) or (not wanted and other):
        raise ValueError(f"mechanism must be one that answers {window!r}, got {claim.__name__}")
    return {wanted: size} if wanted else {}


def _build_adaptive_window(
    window: str, kind: str, claim: type[AdaptiveMechanism[Any]], names: set[str]
) -> dict[str, Any]:
    """Return the window of an adaptive mechanism, in the words that it accepts."""
    if kind not in claim.WINDOWS:
        known = " or ".join(claim.WINDOWS)
        got = f"{claim.__name__}, which answers {known}"
        raise ValueError(f"mechanism must be one that answers {window!r}, got {got}")
    return {"window": window} if "window" in names else {}
