"""Some releases of a pipeline file as a subject: views of real runs, many of which come at once."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from streamgauge.audit.measuring import Watch, unseen
from streamgauge.audit.private_runs import PrivateRuns
from streamgauge.audit.sink_rows import View
from streamgauge.audit.subject import Pair, Score
from streamgauge.audit.unit_inputs import Neighbours
from streamgauge.noise import Ints
from streamgauge.noise.numbers import Floats
from streamgauge.privacy import Loss

Key = tuple[int, bool]  # the number of a pair, and which side


@dataclass
class Bank:
    """Runs of some pairs, kept so that every subject is attacked with the same runs, each run once.

    The views of a run that was broken off are those of both its lives.
    """

    runs: PrivateRuns
    view: View
    pairs: Sequence[Neighbours]
    silent: Floats = field(repr=False)  # (pairs, two sides, view): what is seen without noise
    made: Watch = field(default=unseen, repr=False)  # told how many runs there are of those begun
    kept: dict[Key, list[Floats]] = field(default_factory=dict, repr=False)
    taken: dict[tuple[str, Key], int] = field(default_factory=dict, repr=False)

    def take(self, reader: str, key: Key, count: int) -> Floats:
        """The next views that this reader has not seen."""
        begin, blocks = self.taken.get((reader, key), 0), self.kept.setdefault(key, [])
        self.taken[reader, key] = end = begin + count
        while len(blocks) * self.runs.copies.count < end:
            blocks.append(self.runs.shown(self.view, [self.pairs[key[0]].sides[key[1]]]))
            self.made(min(end, len(blocks) * self.runs.copies.count), end)
        size = self.runs.copies.count
        return np.concatenate(blocks[begin // size : -(-end // size)])[begin % size :][:count]


@dataclass(frozen=True)
class PipelineSubject:
    """Some releases of a file, to those who read its sinks."""

    name: str
    loss: Loss
    bank: Bank = field(repr=False)
    numbers: Sequence[int]  # of the pairs that it is attacked with
    evidence: Sequence[Score | None] = field(repr=False)  # of each of them
    places: Ints | None = field(repr=False)  # of all that is seen, where not all is looked at

    def pairs(self) -> Sequence[Pair]:
        return [
            Pair(self.bank.pairs[number].name, (number, True), (number, False), score)
            for number, score in zip(self.numbers, self.evidence, strict=True)
        ]

    def views(self, data: Key, runs: int) -> Floats:
        views = self.bank.take(self.name, data, runs)
        return views if self.places is None else views[:, self.places]


def of_both_lives(size: int, score: Score | None) -> Score | None:
    """What is known between two views, of a run that was seen twice: where both are the same, twice that."""
    return None if score is None else partial(_of_both_lives, size, score)


def _of_both_lives(size: int, score: Score, views: Floats) -> Floats:
    return np.asarray(score(views[:, :size]) + score(views[:, size:]), np.float64)
