"""What every claim refuses at construction, in the words of the house.

Whole numbers may be NumPy's; they are kept as Python's, so that equal claims are equal in print too.
"""

from collections.abc import Sized
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from streamgauge.noise import SecureNoise
from streamgauge.privacy import Reach, User

if TYPE_CHECKING:
    from streamgauge.continual.claim import Claim

FARTHEST = 2**62  # the last tick that 64 bits can count with room to spare
WIDEST = 2**40  # groups: beyond it no machine has the memory
SHORT = 2**13  # ticks of which matrices are written down


def check_settings(mechanism: "Claim[Any, Any]", *, bounded: bool) -> None:
    """Refuses settings that make no claim; `bounded` mechanisms need a horizon."""
    _keep_plain(mechanism)
    _check_loss(mechanism)
    _check_unit(mechanism)
    if mechanism.pan_private and mechanism.RESTS_EXACT:
        name, why = type(mechanism).__name__, mechanism.RESTS_EXACT
        raise ValueError(f"pan_private must be False for {name} ({why}), got True")
    if mechanism.open_ticks and not mechanism.pan_private:
        raise ValueError("pan_private must be True where ticks are open, got False")
    if mechanism.horizon is None and bounded:
        raise ValueError("horizon must be given for this mechanism, got None")
    if mechanism.horizon is not None:
        check_whole("horizon", mechanism.horizon)
        if mechanism.horizon > FARTHEST:
            raise ValueError(f"horizon must be at most 2**62, got {mechanism.horizon}")
    check_bound(mechanism.bound)
    if mechanism.reach.l1 < mechanism.unit.events:
        events = mechanism.unit.events
        raise ValueError(f"bound must be at least the unit's {events} events a tick, got {mechanism.bound}")


def check_noise(mechanism: "Claim[Any, Any]") -> None:
    """Refuses a claim whose noise nobody can draw; to be called when all settings are in place."""
    try:
        mechanism.distribution  # noqa: B018 - calibrated now rather than at the first tick
    except (ValueError, OverflowError) as refusal:
        asked = f"bound={mechanism.bound}, {mechanism.loss!r}"
        raise ValueError(f"noise must be such as can be drawn, got {asked}: {refusal}") from None


def check_bound(bound: object) -> None:
    if isinstance(bound, Reach) and bound.l2_squared > 0:
        return
    if not is_whole(bound):
        raise ValueError(f"bound must be a whole number of at least 1 or a Reach above 0, got {bound!r}")


def check_whole(name: str, value: object, least: int = 1) -> None:
    if not is_whole(value, least):
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")


def is_whole(value: object, least: int = 1) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= least


def check_width(width: int) -> None:
    check_whole("width", width)
    if width > WIDEST:
        raise ValueError(f"width must be at most 2**40, got {width}")


def check_short(ticks: int) -> None:
    if ticks > SHORT:
        raise ValueError(f"ticks must be at most {SHORT} to write matrices down, got {ticks}")


def check_source(mechanism: "Claim[Any, Any]", noise: object) -> None:
    """Refuses what is no source of noise and, for a pan-private run, one that keeps a key."""
    if noise is not None and not (hasattr(noise, "laplace") and hasattr(noise, "gaussian")):
        raise ValueError(f"noise must be a source with laplace and gaussian, got {noise!r}")
    if mechanism.pan_private and isinstance(noise, SecureNoise):
        raise ValueError("noise must keep no key in a pan-private run, got SecureNoise")


def check_rows(name: str, values: object) -> None:
    if isinstance(values, np.ma.MaskedArray):
        raise ValueError(f"{name} must be integers without a mask, got a masked array")
    if isinstance(values, str | bytes) or not isinstance(values, Sized | int | np.generic):
        raise ValueError(f"{name} must be integers, got {type(values).__name__}")


def _keep_plain(mechanism: "Claim[Any, Any]") -> None:
    """Turns NumPy's whole numbers into Python's, and refuses switches that are neither on nor off."""
    claim: Any = mechanism  # a dataclass, as all claims are
    for field in fields(claim):
        value = getattr(mechanism, field.name)
        if isinstance(value, np.integer | np.bool_):
            object.__setattr__(mechanism, field.name, value.item())
        elif isinstance(field.default, bool) and not isinstance(value, bool):
            raise ValueError(f"{field.name} must be True or False, got {value!r}")


def _check_loss(mechanism: "Claim[Any, Any]") -> None:
    if not isinstance(mechanism.loss, mechanism.LOSSES):
        kinds = " or ".join(kind.__name__ for kind in mechanism.LOSSES)
        reason = f" ({mechanism.WHY})" if mechanism.WHY else ""
        name = type(mechanism).__name__
        raise ValueError(f"loss must be {kinds} for {name}{reason}, got {mechanism.loss!r}")
    if mechanism.loss.kept_as.amount <= 0:
        raise ValueError(f"loss must be positive, got {mechanism.loss!r}")


def _check_unit(mechanism: "Claim[Any, Any]") -> None:
    """A unit has ticks and events; one of several events a tick moves a tick by as many at least."""
    unit = mechanism.unit
    if not isinstance(getattr(unit, "ticks", None), int):
        raise ValueError(f"unit must be an Event, Tick, WEvent or User, got {unit!r}")
    if mechanism.pan_private and isinstance(unit, User) and unit.ticks > 1:
        raise ValueError("pan_private must be False for users, whose ticks someone has to remember, got True")
