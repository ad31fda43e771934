"""Heavy hitters among words on no list, by extension of frequent prefixes.

    device      level at random; the word's prefix of that level (`Spelling`), reported by the level's own
                `HadamardCountMeanSketch` at the whole loss
    collector   a sketch for each level; `find` extends the prefixes of a level that rise above the floor

    code = level 2 hashes m + the sketch's code

Privacy
    Local, pure epsilon, one report a device. Proof: the level is drawn before the word is read, and given the
    level the report is one of a sketch of loss epsilon. Reports of several levels would each lose epsilon. A
    level that depends on the word would reveal it.

Error
    Counts are of the last level, at which words are whole: `levels` times those of its sketch, unbiased.
    With L levels, own = L own' + L - 1 (the level of a device is chance as well), other = L other',
    shared = shared' of the sketch in the formula of `oracle`; exact. So a word's standard error is sqrt(L)
    times that of a sketch of a known list: fewer levels are better, with more candidates to test.
    floor             no more than `mistakes` prefixes and words of no device are above it, on average, in a
                      whole search: a tail of mistakes/(L max_prefixes branches) each, by the law of
                      `collisions` (normal but for them). Words that are found are subtracted from the level's
                      sketch (`Residue`), so that their collisions hide no other, and the rest is tested again
                      by a lower floor
    smallest_count    a word of so many devices is found with some confidence: it is above the floor, and above
                      2 reports/max_prefixes, by enough for all levels. On average no more than reports/floor
                      prefixes rise above a floor, since a count of f does with a chance of at most f/floor, or
                      1; so `max_prefixes` of twice that many cuts none off.
    If devices repeat their reports, declare it: `copies` of one, at most, widen floors and errors.

Reference
    Wang, Li, Jha: Locally differentially private heavy hitter identification, TDSC 18(2), 2021 (prefix
    extending, a level a device); Apple, Learning with privacy at scale, 2017 (fragments of a word with a
    hash of the whole, which need a second report and loss). Here levels are drawn, not assigned, so that
    the number of devices need not be known.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import sqrt

import numpy as np

from streamgauge.localdp.coded_reports import CodedMechanism
from streamgauge.localdp.collisions import tail_quantile
from streamgauge.localdp.hashing import MAX_SEED, HashFamily, encode_items
from streamgauge.localdp.mechanism import normalize_whole, resolve_noise
from streamgauge.localdp.oracle import Item, Spread, Table, allocate_table
from streamgauge.localdp.protocols.count_mean_sketch import MAX_SKETCH_CELLS
from streamgauge.localdp.protocols.hadamard_count_mean_sketch import HadamardCountMeanSketch
from streamgauge.localdp.report_bytes import Reports, pack_codes, unpack_codes
from streamgauge.localdp.word_search import (
    DEFAULT_SEARCH,
    END,
    Residue,
    Search,
    Spelling,
    WordCollector,
    count_branches,
)
from streamgauge.noise import RandomSource
from streamgauge.noise.coerce import Floats
from streamgauge.noise.tail_bounds import normal_point

LATIN_ALPHABET = "abcdefghijklmnopqrstuvwxyz"
MAX_WORD_LENGTH = 2**10
MAX_BRANCHES = 2**16
TARGET_BRANCHES = 2**11  # of the default step
FIXED_POINT_ROUNDS = 20  # each adds far more than a digit to the smallest count


@dataclass(frozen=True)
class HeavyHitters(CodedMechanism):
    """Counts of words on no list, from one bit a device; see the module's claim.

    The default `step` is the longest for which a prefix has at most 2,048 extensions.
    """

    alphabet: str = LATIN_ALPHABET
    length: int = 12
    step: int | None = None
    hashes: int = 256
    width: int = 1024
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        alphabet = self.alphabet
        if not (isinstance(alphabet, str) and alphabet and len(set(alphabet)) == len(alphabet)):
            raise ValueError(f"alphabet must be letters, each once, got {alphabet!r}")
        if END in alphabet or any("\ud800" <= letter <= "\udfff" for letter in alphabet):
            raise ValueError(f"alphabet must be without NUL, which ends words, and half characters, got {alphabet!r}")
        normalize_whole(self, "length", 1, MAX_WORD_LENGTH)
        if self.step is None:
            steps = range(2, self.length + 1)
            few = (step for step in steps if count_branches(len(alphabet), step) <= TARGET_BRANCHES)
            object.__setattr__(self, "step", max(few, default=1))
        normalize_whole(self, "step", 1, self.length)
        normalize_whole(self, "seed", 0, MAX_SEED - self.levels)
        if self.spelling.branches > MAX_BRANCHES:
            most = f"such that a prefix has at most {MAX_BRANCHES} extensions"
            raise ValueError(f"step must be {most}, got {self.step} ({self.spelling.branches} extensions)")
        self.sketches  # noqa: B018 - rejects what makes no sketch
        if self.levels * self.hashes * self.width > MAX_SKETCH_CELLS:
            raise ValueError(f"hashes must be at most 2**30 / (width x {self.levels} levels), got {self.hashes}")

    @cached_property
    def spelling(self) -> Spelling:
        return Spelling(self.alphabet, self.length, self.step or 1)

    @property
    def levels(self) -> int:
        return self.spelling.levels

    @cached_property
    def sketches(self) -> tuple[HadamardCountMeanSketch, ...]:
        """One sketch for each level, with its own hash family."""
        return tuple(
            HadamardCountMeanSketch(self.loss, hashes=self.hashes, width=self.width, seed=self.seed + level)
            for level in range(self.levels)
        )

    @property
    def family(self) -> HashFamily:
        """The hash family of whole words."""
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
        """Return the report of an item, given the draws."""
        sketch, prefix = self.sketches[level], self.spelling.prefixes(item)[level]
        code = int.from_bytes(sketch.encode(prefix, row, line, flipped), "little")
        return (level * sketch.codes + code).to_bytes(self.report_size, "little")

    def privatise_many(self, items: Sequence[Item], noise: RandomSource | None = None) -> Reports:
        chance, texts = resolve_noise(noise), encode_items(items)
        prefixes = {text: self.spelling.prefixes(text.decode()) for text in set(texts)}
        drawn = chance.uniform(self.levels, len(texts))
        codes = np.zeros(len(texts), np.int64)
        for level in np.unique(drawn).tolist():
            mine = np.flatnonzero(drawn == level)
            sent = self.sketches[level].privatise_many([prefixes[texts[place]][level] for place in mine], chance)
            codes[mine] = unpack_codes(sent) + np.int64(level * self.sketches[level].codes)
        return pack_codes(codes, self.report_size)

    def build_table(self) -> Table:
        """Return a row for each level: its sketch, and the number of its reports."""
        return allocate_table(self.levels, self.hashes * self.width + 1)

    def tally(self, table: Table, reports: Reports, weight: int) -> None:
        level, rest = np.divmod(unpack_codes(reports).astype(np.int64), self.sketches[-1].codes)
        for each in np.unique(level).tolist():
            sketch, mine = self.sketches[each], rest[level == each]
            sketch.tally(self.level_cells(table, each), pack_codes(mine, sketch.report_size), weight)
            table[each, -1] += weight * len(mine)

    def level_cells(self, table: Table, level: int) -> Table:
        """Return the sketch of a level."""
        return table[level, :-1].reshape(self.hashes, self.width)

    def counts(self, table: Table, reports: int, items: Sequence[Item]) -> Floats:
        words = [self.spelling.clean(item) for item in items]
        return self.levels * self.build_residue(table, self.levels - 1).counts(words)

    def squares(self, table: Table, reports: int, copies: int = 1) -> float:
        last = self.level_cells(table, self.levels - 1)
        there = self.sketches[-1].squares(last, int(table[-1, -1]), copies)
        return self.scale_squares(there, copies * reports)

    def scale_squares(self, level_squares: float, self_pairs: int) -> float:
        """Return squares of all devices from those of a level.

        A pair is in one level with chance 1/L^2, a device with 1/L.
        """
        return self.levels**2 * level_squares - self_pairs * (self.levels - 1)

    @property
    def hash_shape(self) -> tuple[int, int] | None:
        return self.hashes, self.width

    def build_residue(self, table: Table, level: int) -> Residue:
        """Return the residue of a level before any item is subtracted."""
        reports = int(table[level, -1])
        return Residue(self.sketches[level], self.level_cells(table, level), reports, float(reports))

    def build_collector(self) -> WordCollector:
        return WordCollector(self)

    def load(self, saved: bytes) -> WordCollector:
        return WordCollector.load(self, saved)

    def floor(
        self, reports: int, squares: float | None = None, search: Search = DEFAULT_SEARCH, copies: int = 1
    ) -> float:
        """Return the estimate below which nothing is found.

        `squares` is the sum of the squares of the counts of all prefixes of a level. It is reports^2 at most, which is
        the default.
        """
        pairs = float(reports) ** 2 if squares is None else squares
        variance = max(self.variance(0, reports, pairs, copies), 1e-9)
        share = self.spread.collision_variance(0, reports, pairs, copies) / variance
        tail = search.tail(self.levels, self.spelling.branches)
        return float(tail_quantile(self.hashes, self.width, tail, share) * sqrt(variance))

    def smallest_count(
        self,
        reports: int,
        confidence: float = 0.9,
        squares: float | None = None,
        search: Search = DEFAULT_SEARCH,
        copies: int = 1,
    ) -> float:
        """Return the count of a word that a search finds with some confidence.

        If it is beyond `reports`, no word is found. At that count, count - z stddev(count) is the floor, or
        2 reports/max_prefixes, once all words of that count are subtracted: squares are then at most reports x count.
        """
        if not 0.5 < confidence < 1:
            raise ValueError(f"confidence must be above 0.5 and below 1, got {confidence}")
        count, wide = float(reports), normal_point((1 - confidence) / self.levels)
        for _ in range(FIXED_POINT_ROUNDS):
            pairs = min(float(reports) ** 2 if squares is None else squares, reports * count)
            least = max(self.floor(reports, pairs, search, copies), 2 * reports / search.max_prefixes)
            count = least + wide * sqrt(self.variance(min(count, reports), reports, pairs, copies))
        return count
