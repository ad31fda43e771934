"""The counter that a statistic was asked to count with, by name: with what the statistic decides of it.

That is what the claim is about (loss, unit, reach, whether it is pan-private), when (horizon, window), and
whether what is counted can be negative; each as far as the mechanism has such a setting.
"""

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from streamgauge.continual import Claim
from streamgauge.privacy import Loss
from streamgauge.statistics.settings import window_settings
from streamgauge.statistics.tuned import Tuned

if TYPE_CHECKING:
    from streamgauge.statistics.statistic import Statistic


def asked_counter(statistic: "Statistic[Any]", asked: Tuned, loss: Loss) -> Claim[Any, Any]:
    """The mechanism with its own settings and all that the statistic decides."""
    claim: Any = asked.mechanism
    names = {field.name for field in fields(claim)}
    if statistic.open_ticks and "open_ticks" not in names:
        raise ValueError(f"open_ticks must be False for {claim.__name__}, got True")
    decided = {
        "unit": statistic.counted,
        "pan_private": statistic.pan_private,
        "open_ticks": statistic.open_ticks,
        "bound": statistic.reach,
        "horizon": statistic.horizon,
        "signed": statistic.signed,
        "lowest": None if statistic.signed else 0,
        **window_settings(statistic.window, claim),
    }
    if statistic.horizon is not None:
        decided["last_tick"] = statistic.horizon
    known = {name: value for name, value in decided.items() if name in names}
    made: Claim[Any, Any] = claim(loss, **known | dict(asked.settings))
    return made
