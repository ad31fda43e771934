"""Search for frequent words among the reports of `heavy_hitters`.

Prefixes that rise above a floor are extended. All of it is post-processing: search as often as you like, in any
manner. `Search` states the limits: at most `max_prefixes` prefixes of a level are extended, so that a level has at
most max_prefixes x branches candidates. On average no more than `mistakes` of all prefixes and words that are found
are no device's.

Words are cut into prefixes, level by level:

    length 5, step 2        level 0   level 1   level 2
    "banana"                ba        bana      banan       cut to 5 letters
    "nab"                   na        nab.      nab         ended: the dot stands for END
    "no!"                   no        no.       no          "!" is not in the alphabet

A prefix shows that a word has ended. At the last level every word is whole, and needs no END. A word is cleaned by
itself: letters (code points) outside the alphabet are dropped, then it is cut. An item without letters is the empty
word, which is counted as any other.

Known items are subtracted from a sketch, which leaves that of the others. An item of f reports is expected to have
f/(k m c) H[l, h_j(item)] in the cell of row j and line l. Subtracting that leaves the sketch of all other reports,
with the chance of all of them. Hashes are public, so the items that collide with it are known, and its collisions are
subtracted too. The error of f stays, times the part of rows in which another item meets it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from streamgauge.continual.validation import check_whole
from streamgauge.localdp.collector import Collector, Frequencies
from streamgauge.localdp.hashing import encode_item
from streamgauge.localdp.protocols.hadamard_count_mean_sketch import HadamardCountMeanSketch
from streamgauge.localdp.protocols.hadamard_response import hadamard_transform
from streamgauge.noise.coerce import Floats

if TYPE_CHECKING:
    from streamgauge.localdp.heavy_hitters import HeavyHitters

END = "\0"
WordTuple = tuple[str, ...]


@dataclass(frozen=True)
class Spelling:
    """The prefixes of words of an alphabet, `step` letters a level."""

    alphabet: str
    length: int
    step: int

    @cached_property
    def prefix_lengths(self) -> tuple[int, ...]:
        """The number of letters of the prefixes of each level."""
        return tuple(min(end, self.length) for end in range(self.step, self.length + self.step, self.step))

    @property
    def levels(self) -> int:
        return len(self.prefix_lengths)

    @cached_property
    def letters(self) -> frozenset[str]:
        return frozenset(self.alphabet)

    def clean(self, item: object) -> str:
        """Return the letters of an item, cut to the length; never raise."""
        text = encode_item(item).decode()
        return "".join(letter for letter in text if letter in self.letters)[: self.length]

    def prefix(self, word: str, level: int) -> str:
        """Return the prefix of a clean word at a level."""
        end = self.prefix_lengths[level]
        return word[:end] if len(word) >= end or level == self.levels - 1 else word + END

    def prefixes(self, item: object) -> WordTuple:
        """Return the prefixes of an item at every level."""
        word = self.clean(item)
        return tuple(self.prefix(word, level) for level in range(self.levels))

    def extend(self, prefixes: WordTuple, level: int) -> WordTuple:
        """Return all prefixes of a level that extend some of the level before it."""
        tails = self.tails(level)
        ending = "" if level == self.levels - 1 else END
        ended = tuple(each[:-1] + ending for each in prefixes if each.endswith(END))
        return ended + tuple(each + tail for each in prefixes if not each.endswith(END) for tail in tails)

    def tails(self, level: int) -> WordTuple:
        """Return the possible extensions of a prefix to a level."""
        more = self.prefix_lengths[level] - (self.prefix_lengths[level - 1] if level else 0)
        ending = "" if level == self.levels - 1 else END
        short = tuple("".join(each) + ending for size in range(more) for each in product(self.alphabet, repeat=size))
        return short + tuple("".join(each) for each in product(self.alphabet, repeat=more))

    @property
    def branches(self) -> int:
        """The most extensions of a prefix: letters up to the step, or fewer."""
        return count_branches(len(self.alphabet), min(self.step, self.length))


def count_branches(letters: int, step: int) -> int:
    """Return 1 + letters + ... + letters^step.

    >>> count_branches(26, 2)
    703
    """
    return sum(letters**size for size in range(step + 1))


CHUNK_CELLS = 2**20  # cells


@dataclass(frozen=True, eq=False)
class Residue:
    """A sketch without known items: `remaining_reports` of its reports are left."""

    sketch: HadamardCountMeanSketch
    table: Any  # noisy
    reports: int
    remaining_reports: float

    @property
    def collision_offset(self) -> float:
        """The part of every count that is subtracted for random collisions."""
        return self.sketch.stretch * self.remaining_reports / self.sketch.width

    def counts(self, items: Sequence[str]) -> Floats:
        """Estimate the remaining reports of each item."""
        return self.sketch.counts(self.table, 0, items) - self.collision_offset

    def squares(self, copies: int = 1) -> float:
        """Estimate the sum of squares of the remaining counts."""
        return self.sketch.squares(self.table, self.reports, copies)

    def subtract(self, items: Sequence[str], counts: Floats) -> "Residue":
        """Return the residue without so many reports of each of some items."""
        sketch, words = self.sketch, self.sketch.family.words(items)
        table = np.empty(self.table.shape)
        step = max(CHUNK_CELLS // max(sketch.width, len(items)), 1)
        for first in range(0, sketch.hashes, step):
            rows = np.arange(first, min(first + step, sketch.hashes))[:, None]
            cells = np.zeros((len(rows), sketch.width))
            np.add.at(cells, (rows - first, sketch.family.columns(rows, words)), counts)
            expected = hadamard_transform(cells) / (sketch.hashes * sketch.width * sketch.scale)
            table[rows[:, 0]] = self.table[rows[:, 0]] - expected
        return Residue(sketch, table, self.reports, self.remaining_reports - float(counts.sum()))


MAX_CANDIDATES = 2**22
MAX_ROUNDS = 4  # tests of a level's prefixes
FLOOR_TOLERANCE = 1.05  # times the floor without collisions: not worth another round


@dataclass(frozen=True)
class Search:
    """Limits of a search: prefixes of a level that are extended, and mean mistakes.

    A mistake is a prefix or word of no device that is found.
    """

    max_prefixes: int = 256
    mistakes: float = 0.01

    def __post_init__(self) -> None:
        check_whole("max_prefixes", self.max_prefixes)
        if not 0 < self.mistakes < 1:
            raise ValueError(f"mistakes must be above 0 and below 1, got {self.mistakes}")

    def tail(self, levels: int, branches: int) -> float:
        """Return the chance of a prefix of no device to be above the floor, each time.

        A prefix is tested up to MAX_ROUNDS times.
        """
        if self.max_prefixes * branches > MAX_CANDIDATES:
            rule = f"at most {MAX_CANDIDATES // branches} if a prefix has {branches} extensions"
            raise ValueError(f"max_prefixes must be {rule}, got {self.max_prefixes}")
        return self.mistakes / (MAX_ROUNDS * levels * self.max_prefixes * branches)


DEFAULT_SEARCH = Search()


class WordCollector(Collector):
    """A collector that finds words; make one with `mechanism.build_collector()`."""

    mechanism: "HeavyHitters"

    def find(
        self, count: int | None = None, *, min_count: float = 0.0, search: Search = DEFAULT_SEARCH, copies: int = 1
    ) -> Frequencies:
        """Return the words of the largest estimates, largest first.

        There are at most `count`. All are above the floor with the others subtracted, and have estimates of at least
        `min_count`. No report is present more than `copies` times.
        """
        check_whole("copies", copies)
        words: WordTuple = ("",)
        for level in range(self.mechanism.levels):
            words = self._select_prefixes(level, words, search, copies)
        found = self.estimate(words, copies)
        enough = int((found.count >= min_count).sum())
        return found.top(enough if count is None else min(count, enough))

    def _select_prefixes(self, level: int, prefixes: WordTuple, search: Search, copies: int) -> WordTuple:
        """Return the prefixes of a level that are extended, largest first."""
        claim, residue = self.mechanism, self.mechanism.build_residue(self._state.table, level)
        lowest = claim.floor(self.reports, 0, search, copies)
        candidates = claim.spelling.extend(prefixes, level)
        # removing others adds at most the offset to a count: only these may rise above the lowest floor
        most = claim.levels * (residue.counts(candidates) + residue.collision_offset)
        candidates = tuple(candidates[place] for place in np.flatnonzero(most > lowest))
        known, risen = np.zeros(len(candidates)), np.zeros(len(candidates), bool)
        for _ in range(MAX_ROUNDS):
            counts = known + residue.counts(candidates)
            squares = claim.scale_squares(residue.squares(copies), copies * self.reports)
            floor = claim.floor(self.reports, min(max(squares, 0.0), float(self.reports) ** 2), search, copies)
            before, above = risen, risen | (claim.levels * counts > floor)
            largest = np.argsort(np.where(above, -counts, np.inf), kind="stable")[: search.max_prefixes]
            risen = above & np.isin(np.arange(len(counts)), largest)
            if (risen == before).all() or floor <= FLOOR_TOLERANCE * lowest:
                break
            more, known = np.where(risen, counts, 0) - known, np.where(risen, counts, 0)
            residue = residue.subtract([candidates[place] for place in np.flatnonzero(more)], more[more != 0])
        return tuple(candidates[place] for place in np.argsort(-counts, kind="stable") if risen[place])
