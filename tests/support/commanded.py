"""Noise that follows a script, so an adversary decides every private test; and its cost."""

from fractions import Fraction
from typing import Any

import numpy as np

from streamgauge.noise import Ints

FAR = 2**61  # decides any test


class CommandedNoise:
    """Hands out the draws of its queue, and then zeros; writes down the scale of every request.

    >>> noise = CommandedNoise(7)
    >>> noise.laplace(Fraction(2), 1), noise.laplace(Fraction(3), 2), noise.scales
    (array([7]), array([0, 0]), [Fraction(2, 1), Fraction(3, 1)])
    """

    def __init__(self, *queue: int) -> None:
        self.queue = list(queue)
        self.scales: list[Fraction] = []

    def laplace(self, scale: Fraction, size: int) -> Ints:
        self.scales.append(scale)
        told, self.queue = self.queue[:size], self.queue[size:]
        return np.array(told + [0] * (size - len(told)), np.int64)

    gaussian = laplace


def charged(claim: Any, noise: CommandedNoise) -> Fraction:
    """Return the loss of a step by its requested noise: a vector that moves by l1 loses l1/scale."""
    return sum((claim.tick_sensitivity.l1 / scale for scale in noise.scales), Fraction(0))
