"""Adversaries of the game. Write your own with `StreamAdversary.choose`."""

from math import sqrt

from streamgauge.noise import RandomSource, SecureNoise
from streamgauge.robust.game import Update


class RandomAdversary:
    """A stream that does not look at answers: items drawn evenly."""

    def __init__(self, keys: int, noise: RandomSource | None = None) -> None:
        self.keys = keys
        self._source = noise if noise is not None else SecureNoise()

    def choose(self, answer: float) -> Update:
        return int(self._source.uniform(self.keys, 1)[0]), 1


class MomentAttack:
    """Attack on the second moment sketch of Alon, Matias and Szegedy, by insertions only.

    A heavy item of weight 3 sqrt(rows) comes first. Each new item is inserted once more if the answer rose by less than
    1: then its signs oppose those of the rest in most rows. Rows shrink, while the truth grows.
    """

    def __init__(self, rows: int) -> None:
        self._weight = max(1, round(3 * sqrt(rows)))
        self._item, self._before, self._is_new = 0, 0.0, False

    def choose(self, answer: float) -> Update:
        if self._item == 0:
            self._item = 1
            return 0, self._weight
        if self._is_new and answer - self._before < 1:
            self._is_new = False
            return self._item, 1
        self._item, self._before, self._is_new = self._item + 1, answer, True
        return self._item, 1


class BatchAttack:
    """Attack on the estimate of an absent item by CountSketch, by batches of insertions and deletions.

    A batch of as many new items as columns stays if the answer rose, and is deleted otherwise.
    """

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._first, self._done, self._before = 1, 0, 0.0
        self._sign = 1

    def choose(self, answer: float) -> Update:
        if self._done == self._columns:
            self._close_batch(answer)
        self._done += 1
        return self._first + self._done - 1, self._sign

    def _close_batch(self, answer: float) -> None:
        self._done = 0
        if self._sign == 1 and answer <= self._before:
            self._sign = -1  # delete the same items
            return
        self._sign, self._before = 1, answer
        self._first += self._columns
