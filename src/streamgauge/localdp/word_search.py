"""The search for frequent words among the reports of `heavy_hitters`: prefixes that rise above a floor go on.

All of it is post-processing: search as often as you like, in any way. `Search` says how far: at most `keep`
prefixes of a level go on, so that a level has at most keep x branches candidates; and on average no more
than `mistakes` of all prefixes and words that are found are nobody's.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from streamgauge.continual.settings import check_whole
from streamgauge.localdp.collector import Collector
from streamgauge.localdp.estimates import Frequencies
from streamgauge.localdp.residue import Residue
from streamgauge.localdp.spelling import Words
from streamgauge.noise.numbers import Bools, Floats

if TYPE_CHECKING:
    from streamgauge.localdp.heavy_hitters import HeavyHitters

MOST_CANDIDATES = 2**22
ROUNDS = 4  # in which a level's prefixes are judged
HARDLY = 1.05  # times the floor without collisions: not worth another round


@dataclass(frozen=True)
class Search:
    """How many prefixes of a level go on at most, and how many that are nobody's may be found on average."""

    keep: int = 256
    mistakes: float = 0.01

    def __post_init__(self) -> None:
        check_whole("keep", self.keep)
        if not 0 < self.mistakes < 1:
            raise ValueError(f"mistakes must be above 0 and below 1, got {self.mistakes}")

    def tail(self, levels: int, branches: int) -> float:
        """The chance of one prefix that nobody has to be above the floor, each time that it is judged."""
        if self.keep * branches > MOST_CANDIDATES:
            most = MOST_CANDIDATES // branches
            raise ValueError(
                f"keep must be at most {most} where a prefix goes on in {branches} ways, got {self.keep}"
            )
        return self.mistakes / (ROUNDS * levels * self.keep * branches)


SEARCH = Search()


class WordCollector(Collector):
    """A collector that finds words; make one with `claim.collector()`."""

    claim: "HeavyHitters"

    def find(
        self, count: int | None = None, *, above: float = 0.0, search: Search = SEARCH, copies: int = 1
    ) -> Frequencies:
        """The words of the largest estimates, largest first: at most `count`, all above the floor where the
        others are taken out, and with estimates of at least `above`. No report is there more than `copies`
        times."""
        check_whole("copies", copies)
        words: Words = ("",)
        for level in range(self.claim.levels):
            words = self._risen(level, words, search, copies)
        found = self.estimate(words, copies)
        enough = int((found.count >= above).sum())
        return found.top(enough if count is None else min(count, enough))

    def _risen(self, level: int, prefixes: Words, search: Search, copies: int) -> Words:
        """The prefixes of a level that go on, largest first."""
        claim, residue = self.claim, self.claim.residue(self._state.table, level)
        lowest = claim.floor(self.reports, 0, search, copies)
        candidates = self._hopeful(residue, claim.spelling.extended(prefixes, level), lowest)
        known = np.zeros(len(candidates))
        risen = np.zeros(len(candidates), bool)
        for _ in range(ROUNDS):
            counts = known + residue.counts(candidates)
            floor = self._floor(residue, search, copies)
            before, risen = risen, _largest(counts, risen | (claim.levels * counts > floor), search.keep)
            if (risen == before).all() or floor <= HARDLY * lowest:
                break
            more, known = np.where(risen, counts, 0) - known, np.where(risen, counts, 0)
            residue = residue.without([candidates[place] for place in np.flatnonzero(more)], more[more != 0])
        return tuple(candidates[place] for place in np.argsort(-counts, kind="stable") if risen[place])

    def _hopeful(self, residue: Residue, candidates: Words, lowest: float) -> Words:
        """Those that may rise above the lowest floor: taking others out adds at most what all of them take
        off a count on average."""
        most = self.claim.levels * (residue.counts(candidates) + residue.off)
        return tuple(candidates[place] for place in np.flatnonzero(most > lowest))

    def _floor(self, residue: Residue, search: Search, copies: int) -> float:
        squares = self.claim.squares_from(residue.squares(copies), copies * self.reports)
        most = float(self.reports) ** 2
        return self.claim.floor(self.reports, min(max(squares, 0.0), most), search, copies)


def _largest(counts: Floats, risen: Bools, most: int) -> Bools:
    """Of those that have risen so many, the largest."""
    kept = np.zeros(len(counts), bool)
    kept[np.argsort(np.where(risen, -counts, np.inf), kind="stable")[:most]] = True
    return kept & risen
