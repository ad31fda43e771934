"""Heavy hitters over words that are on no list: frequent prefixes are found, and extended level by level.

    device      level at random; the word's prefix of that level (`spelling`), reported by the level's own
                `HadamardCountMeanSketch` at the whole loss
    collector   a sketch for each level; `find` extends the prefixes of a level that rise above the floor

    code = level 2 hashes m + the sketch's code

Privacy
    Local, pure epsilon, one report a device. Proof: the level is drawn before the word is looked at, and
    given the level the report is one of a sketch of loss epsilon. Reports of several levels would each lose
    epsilon; a level that depends on the word would tell what it depends on.

Error
    Counts are of the last level, where words are whole: `levels` times what its sketch says, unbiased.
    With L levels, own = L own' + L - 1 (which level a device drew is chance as well), other = L other',
    shared = shared' of the sketch in the formula of `oracle`; exact. So a word's standard error is sqrt(L)
    times that of a sketch of a known list: fewer levels are better, and more to look through.
    floor        no more than `mistakes` prefixes and words that nobody has are above it, on average, in a
                 whole search: a tail of mistakes/(L keep branches) each, by the law of `collisions` (normal
                 but for them). What is found is taken out of the level's sketch (`residue`), so that its
                 collisions hide no other, and the rest is judged again by a lower floor
    smallest     a word of so many devices is found with some confidence: it is above the floor, and above
                 2 reports/keep, by enough for all levels. On average no more than reports/floor prefixes
                 rise above a floor, since a count of f does with a chance of at most f/floor, or 1; so
                 `keep` of twice that many cuts none off.
    Where devices repeat their reports, say so: `copies` of one, at most, widen floors and errors.

Reference
    Wang, Li, Jha: Locally differentially private heavy hitter identification, TDSC 18(2), 2021 (prefix
    extending, a level a device); Apple, Learning with privacy at scale, 2017 (fragments of a word with a
    hash of the whole, which need a second report and loss). Here levels are drawn, not assigned, so that
    nobody need know how many devices there are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import sqrt

import numpy as np
import numpy.typing as npt

from streamgauge.localdp.claim import keep_whole, source
from streamgauge.localdp.coded import CodedClaim
from streamgauge.localdp.collisions import point
from streamgauge.localdp.hadamard_count_mean_sketch import HadamardCountMeanSketch
from streamgauge.localdp.hashing import MOST_SEED, Hashes, texts_of
from streamgauge.localdp.oracle import Item, Spread, Table, blank_table
from streamgauge.localdp.reports import Reports, packed, unpacked
from streamgauge.localdp.residue import Residue
from streamgauge.localdp.sketch import MOST_CELLS
from streamgauge.localdp.spelling import END, Spelling, branches
from streamgauge.localdp.word_search import SEARCH, Search, WordCollector
from streamgauge.noise import Chance
from streamgauge.noise.normal import normal_point
from streamgauge.noise.numbers import Floats

LATIN = "abcdefghijklmnopqrstuvwxyz"
MOST_LENGTH = 2**10
MOST_BRANCHES = 2**16
FEW_BRANCHES = 2**11  # what a step is chosen for
ROUNDS = 20  # each brings the smallest count nearer by far more than a digit


@dataclass(frozen=True)
class HeavyHitters(CodedClaim):
    """Counts of words nobody has listed, from one bit a device; see the module's claim. Without a `step` it
    is the longest for which a prefix goes on in at most 2,048 ways."""

    alphabet: str = LATIN
    length: int = 12
    step: int | None = None
    hashes: int = 256
    width: int = 1024
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_alphabet(self.alphabet)
        keep_whole(self, "length", 1, MOST_LENGTH)
        if self.step is None:
            object.__setattr__(self, "step", _longest_step(len(self.alphabet), self.length))
        keep_whole(self, "step", 1, self.length)
        keep_whole(self, "seed", 0, MOST_SEED - self.levels)
        if self.spelling.branches > MOST_BRANCHES:
            most = f"such that a prefix goes on in at most {MOST_BRANCHES} ways"
            raise ValueError(f"step must be {most}, got {self.step} ({self.spelling.branches} ways)")
        self.sketches  # noqa: B018 - refuses what makes no sketch
        if self.levels * self.hashes * self.width > MOST_CELLS:
            raise ValueError(
                f"hashes must be at most 2**30 / (width x {self.levels} levels), got {self.hashes}"
            )

    @cached_property
    def spelling(self) -> Spelling:
        return Spelling(self.alphabet, self.length, self.step or 1)

    @property
    def levels(self) -> int:
        return self.spelling.levels

    @cached_property
    def sketches(self) -> tuple[HadamardCountMeanSketch, ...]:
        """One for each level, of a hash family of its own."""
        return tuple(
            HadamardCountMeanSketch(self.loss, hashes=self.hashes, width=self.width, seed=self.seed + level)
            for level in range(self.levels)
        )

    @property
    def family(self) -> Hashes:
        """Of whole words."""
        return self.sketches[-1].family

    @property
    def chances(self) -> dict[str, Fraction]:
        return self.sketches[-1].chances

    @property
    def codes(self) -> int:
        return self.levels * self.sketches[-1].codes

    @property
    def influence(self) -> float:
        return self.levels * self.sketches[-1].influence

    @property
    def spread(self) -> Spread:
        levels, sketch = self.levels, self.sketches[-1].spread
        return Spread(levels * sketch.own + levels - 1, levels * sketch.other, sketch.shared)

    def encode(self, item: Item, level: int, row: int, line: int, flipped: int) -> bytes:
        """The report of an item, given what was drawn."""
        sketch, prefix = self.sketches[level], self.spelling.prefixes(item)[level]
        code = int.from_bytes(sketch.encode(prefix, row, line, flipped), "little")
        return (level * sketch.codes + code).to_bytes(self.report_size, "little")

    def privatise_many(self, items: Sequence[Item], noise: Chance | None = None) -> Reports:
        chance = source(noise)
        prefixes, place = self._spelt(items)
        drawn = chance.uniform(self.levels, len(place))
        codes = np.zeros(len(place), np.int64)
        for level in np.unique(drawn).tolist():
            mine = drawn == level
            sent = self.sketches[level].privatise_many(list(prefixes[level, place[mine]]), chance)
            codes[mine] = unpacked(sent) + np.int64(level * self.sketches[level].codes)
        return packed(codes, self.report_size)

    def _spelt(self, items: Sequence[Item]) -> tuple[npt.NDArray[np.object_], npt.NDArray[np.int64]]:
        """The prefixes of every distinct text, level by level, and which of the texts each item is."""
        texts = texts_of(items)
        known = {text: place for place, text in enumerate(dict.fromkeys(texts))}
        spelt = np.empty((self.levels, len(known)), object)
        for text, place in known.items():
            spelt[:, place] = self.spelling.prefixes(text.decode())
        return spelt, np.array([known[text] for text in texts], np.int64)

    def blank(self) -> Table:
        """A row for each level: its sketch, and how many reports it has had."""
        return blank_table(self.levels, self.hashes * self.width + 1)

    def tally(self, table: Table, reports: Reports, weight: int) -> None:
        level, rest = np.divmod(unpacked(reports).astype(np.int64), self.sketches[-1].codes)
        for each in np.unique(level).tolist():
            sketch, mine = self.sketches[each], rest[level == each]
            sketch.tally(self.cells(table, each), packed(mine, sketch.report_size), weight)
            table[each, -1] += weight * len(mine)

    def cells(self, table: Table, level: int) -> Table:
        """The sketch of a level."""
        return table[level, :-1].reshape(self.hashes, self.width)

    def counts(self, table: Table, reports: int, items: Sequence[Item]) -> Floats:
        words = [self.spelling.cleaned(item) for item in items]
        return self.levels * self.residue(table, self.levels - 1).counts(words)

    def squares(self, table: Table, reports: int, copies: int = 1) -> float:
        last = self.cells(table, self.levels - 1)
        there = self.sketches[-1].squares(last, int(table[-1, -1]), copies)
        return self.squares_from(there, copies * reports)

    def squares_from(self, there: float, alone: int) -> float:
        """Of all devices from those of a level: a pair is there with chance 1/L^2, a device with 1/L."""
        return self.levels**2 * there - alone * (self.levels - 1)

    @property
    def hashed(self) -> tuple[int, int] | None:
        return self.hashes, self.width

    def residue(self, table: Table, level: int) -> Residue:
        """Of a level, before anything is taken out."""
        return Residue.whole(self.sketches[level], self.cells(table, level), int(table[level, -1]))

    def collector(self) -> WordCollector:
        return WordCollector(self)

    def load(self, saved: bytes) -> WordCollector:
        return WordCollector.loaded(self, saved)

    def floor(
        self, reports: int, squares: float | None = None, search: Search = SEARCH, copies: int = 1
    ) -> float:
        """The estimate below which nothing is found. `squares` is the sum of the squares of the counts of
        all prefixes of a level; reports^2 at most, which is what it is taken for if it is not given."""
        pairs = float(reports) ** 2 if squares is None else squares
        variance = max(self.variance(0, reports, pairs, copies), 1e-9)
        share = self.spread.collided(0, reports, pairs, copies) / variance
        tail = search.tail(self.levels, self.spelling.branches)
        return float(point(self.hashes, self.width, tail, share) * sqrt(variance))

    def smallest(
        self,
        reports: int,
        confidence: float = 0.9,
        squares: float | None = None,
        search: Search = SEARCH,
        copies: int = 1,
    ) -> float:
        """The count of a word that a search among so many reports finds with some confidence; if it is
        beyond `reports`, none is. It is where count - z stddev(count) is the floor, or 2 reports/keep, once
        all words of that count are taken out: squares are then at most reports x count."""
        if not 0.5 < confidence < 1:
            raise ValueError(f"confidence must be above 0.5 and below 1, got {confidence}")
        count, wide = float(reports), normal_point((1 - confidence) / self.levels)
        for _ in range(ROUNDS):
            pairs = min(float(reports) ** 2 if squares is None else squares, reports * count)
            least = max(self.floor(reports, pairs, search, copies), 2 * reports / search.keep)
            count = least + wide * sqrt(self.variance(min(count, reports), reports, pairs, copies))
        return count


def _longest_step(letters: int, length: int) -> int:
    """The longest by which a prefix goes on in few enough ways."""
    return max((step for step in range(2, length + 1) if branches(letters, step) <= FEW_BRANCHES), default=1)


def _check_alphabet(alphabet: str) -> None:
    if not (isinstance(alphabet, str) and alphabet and len(set(alphabet)) == len(alphabet)):
        raise ValueError(f"alphabet must be letters, each once, got {alphabet!r}")
    if END in alphabet or any("\ud800" <= letter <= "\udfff" for letter in alphabet):
        raise ValueError(
            f"alphabet must be without NUL, which ends words, and half characters, got {alphabet!r}"
        )
