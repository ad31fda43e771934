"""Checks of settings at construction, and the bound of a claim.

NumPy integers become Python's, so that equal claims are also equal in print.

The bound: how far one unit moves one tick's vector
    A whole number b is for vectors of one kind of number, counts or sums. It is at most b in L1 if the loss is
    pure, at most b in L2 if it is zCDP. A `Sensitivity` states both, and vectors of several kinds need it: an
    event that moves (count, sum, squares) by (1, 3, 9) has Sensitivity(13, 91, 3), while b would be 13.
    If a claim is proved in terms of b in L1 and b^2 in squared L2, a Sensitivity has its l1 and its l2_squared.
    Proof: every coordinate is measured by the same C. With m_t the move of tick t, measurements move by at
    most sum_t |c_t|_1 |m_t|_1 in L1 and by sum_st (C'C)_st <m_s, m_t> in squared L2. If the moves of several
    ticks all point in the same direction, that is l2_squared times the effect of one number moved by 1.
"""

from collections.abc import Sized
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from streamgauge.noise import SecureNoise
from streamgauge.privacy import Sensitivity, Unit, User

if TYPE_CHECKING:
    from streamgauge.continual.mechanism import Mechanism

MAX_TICK = 2**62  # the last tick that 64 bits count with bits to spare
MAX_GROUPS = 2**40  # groups: beyond it no machine has the memory
MAX_MATRIX_TICKS = 2**13  # ticks of which matrices are written down


def check_settings(mechanism: "Mechanism[Any, Any]", *, bounded: bool) -> None:
    """Reject settings that make no claim; `bounded` mechanisms need a horizon."""
    _normalize_settings(mechanism)
    _check_loss(mechanism)
    _check_unit(mechanism)
    if mechanism.pan_private and mechanism.EXACT_MEMORY:
        name, why = type(mechanism).__name__, mechanism.EXACT_MEMORY
        raise ValueError(f"pan_private must be False for {name} ({why}), got True")
    if mechanism.open_ticks and not mechanism.pan_private:
        raise ValueError("pan_private must be True where ticks are open, got False")
    if mechanism.horizon is None and bounded:
        raise ValueError("horizon must be given for this mechanism, got None")
    if mechanism.horizon is not None:
        check_whole("horizon", mechanism.horizon)
        if mechanism.horizon > MAX_TICK:
            raise ValueError(f"horizon must be at most 2**62, got {mechanism.horizon}")
    check_bound(mechanism.bound)
    if mechanism.tick_sensitivity.l1 < mechanism.unit.events:
        events = mechanism.unit.events
        raise ValueError(f"bound must be at least the unit's {events} events a tick, got {mechanism.bound}")


def check_noise(mechanism: "Mechanism[Any, Any]") -> None:
    """Reject a claim whose noise cannot be drawn; call it after all settings."""
    try:
        mechanism.distribution  # noqa: B018 - calibrated now rather than at the first tick
    except (ValueError, OverflowError) as refusal:
        got = f"bound={mechanism.bound}, {mechanism.loss!r}"
        raise ValueError(f"noise must be drawable, got {got}: {refusal}") from None


def check_bound(bound: object) -> None:
    if isinstance(bound, Sensitivity) and bound.l2_squared > 0:
        return
    if not is_whole(bound):
        raise ValueError(f"bound must be a whole number of at least 1 or a Sensitivity above 0, got {bound!r}")


def check_whole(name: str, value: object, least: int = 1) -> None:
    if not is_whole(value, least):
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")


def is_whole(value: object, least: int = 1) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= least


def check_width(width: int) -> None:
    check_whole("width", width)
    if width > MAX_GROUPS:
        raise ValueError(f"width must be at most 2**40, got {width}")


def check_matrix_ticks(ticks: int) -> None:
    if ticks > MAX_MATRIX_TICKS:
        raise ValueError(f"ticks must be at most {MAX_MATRIX_TICKS} to write matrices down, got {ticks}")


def check_source(mechanism: "Mechanism[Any, Any]", noise: object) -> None:
    """Reject sources without draws and, for pan-private runs, those with a key."""
    if noise is not None and not (hasattr(noise, "laplace") and hasattr(noise, "gaussian")):
        raise ValueError(f"noise must be a source with laplace and gaussian, got {noise!r}")
    if isinstance(noise, SecureNoise) and (mechanism.pan_private or mechanism.NEEDS_EPHEMERAL_NOISE):
        kind = "pan-private" if mechanism.pan_private else "past-private"
        raise ValueError(f"noise must keep no key in a {kind} run, got SecureNoise")


def check_rows(name: str, values: object) -> None:
    if isinstance(values, np.ma.MaskedArray):
        raise ValueError(f"{name} must be integers without a mask, got a masked array")
    if isinstance(values, str | bytes) or not isinstance(values, Sized | int | np.generic):
        raise ValueError(f"{name} must be integers, got {type(values).__name__}")


def _normalize_settings(mechanism: "Mechanism[Any, Any]") -> None:
    """Turn NumPy integers into Python's; reject switches that are not booleans."""
    claim: Any = mechanism  # a dataclass, as all claims are
    for field in fields(claim):
        value = getattr(mechanism, field.name)
        if isinstance(value, np.integer | np.bool_):
            object.__setattr__(mechanism, field.name, value.item())
        elif isinstance(field.default, bool) and not isinstance(value, bool):
            raise ValueError(f"{field.name} must be True or False, got {value!r}")


def _check_loss(mechanism: "Mechanism[Any, Any]") -> None:
    if not isinstance(mechanism.loss, mechanism.LOSSES):
        kinds = " or ".join(kind.__name__ for kind in mechanism.LOSSES)
        reason = f" ({mechanism.LOSSES_REASON})" if mechanism.LOSSES_REASON else ""
        name = type(mechanism).__name__
        raise ValueError(f"loss must be {kinds} for {name}{reason}, got {mechanism.loss!r}")
    if mechanism.loss.additive_loss.amount <= 0:
        raise ValueError(f"loss must be positive, got {mechanism.loss!r}")


def _check_unit(mechanism: "Mechanism[Any, Any]") -> None:
    """Reject values that are no unit, and pan-private users of several ticks."""
    unit = mechanism.unit
    if not isinstance(getattr(unit, "ticks", None), int):
        raise ValueError(f"unit must be an Event, Tick, WEvent or User, got {unit!r}")
    if mechanism.pan_private and isinstance(unit, User) and unit.ticks > 1:
        raise ValueError("pan_private must be False for users, whose ticks someone has to remember, got True")


Bound = int | Sensitivity
MAX_GROUPS_PER_EVENT = 2**10  # that one event may be in; only of weight where a whole bound is above 32


def parse_bound(bound: Bound, unit: Unit) -> Sensitivity:
    """Return the Sensitivity of either kind of bound.

    Moves are whole numbers, so b^2 in squared L2 are at most b^2 groups. They are also at most MAX_GROUPS_PER_EVENT
    for each of the unit's events, twice as many if one is replaced by another.
    """
    if isinstance(bound, Sensitivity):
        return bound
    moved = MAX_GROUPS_PER_EVENT * unit.events * (2 if unit.replace else 1)
    return Sensitivity(bound, bound * bound, min(bound * bound, moved))
