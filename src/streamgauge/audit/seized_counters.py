"""A counter of signs that can be gone through way by way: `SimpleII` with its items cut to what one slot is.

A slot's sign is 0 or 1, and under Laplace noise of scale 1/epsilon all that is 0 or less says the same of it,
and so does all that is 1 or more. Cut there, nothing is lost, and an item is a sign that was flipped with
chance 1/(1 + e^epsilon): no counter that keeps epsilon for an event tells more of it. So what an estimator
loses through this one, it loses at most through any.
"""

from typing import Any

from streamgauge.continual import SimpleII
from streamgauge.continual.saved import NoNoise
from streamgauge.noise import Ints
from streamgauge.panprivate.randomised_response import symmetric
from streamgauge.privacy import Pure


class CutItems(SimpleII):
    """For ticks of one slot each; see the module."""

    def __str__(self) -> str:
        return "items cut"

    def initial(self, width: int, noise: object) -> Any:
        return super().initial(width, NoNoise())

    def step(self, state: Any, values: Ints, noise: object) -> Ints:
        """Without chance, as a counter is tried by who takes it, it adds up."""
        flips = noise.coins(symmetric(self.loss.amount).absent, len(values)) if hasattr(noise, "coins") else 0
        return super().step(state, values ^ flips, NoNoise())


def one_slot() -> CutItems:
    return CutItems(Pure(1), pan_private=True)
