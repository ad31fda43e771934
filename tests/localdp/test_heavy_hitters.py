"""Heavy hitters: words on no list are found as often as predicted, others hardly ever."""

from collections import Counter
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom, chi2, norm

from streamgauge import Pure
from streamgauge.localdp import HadamardCountMeanSketch, HeavyHitters, Search, WindowedCollector, WordCollector
from streamgauge.localdp.word_search import DEFAULT_SEARCH, END, Residue, Spelling
from streamgauge.noise import EphemeralNoise
from streamgauge.testing.noise import InsecureNoise
from tests.support.every_report import keeps, law, moments, worst_ratio
from tests.support.replicates import FLUKE
from tests.support.saved_states import read_state

TINY = HeavyHitters(Pure(1), alphabet="ab", length=2, step=1, hashes=1, width=2, seed=4)
WORDS = ["aa", "bb", "ab", "ba", "a", "b", ""]
SMALL = HeavyHitters(Pure(3), alphabet="abcd", length=4, step=2, hashes=64, width=64)
SPELLINGS = [Spelling("ab", 3, 2), Spelling("abc", 2, 1), Spelling("a", 5, 2), Spelling("ab", 3, 3)]


@dataclass(frozen=True)
class EveryLevel(HeavyHitters):
    """A twin that reports all prefixes, each at the whole loss."""

    def privatise(self, item, noise=None):
        prefixes = zip(self.sketches, self.spelling.prefixes(item), strict=True)
        return b"".join(sketch.privatise(prefix, noise) for sketch, prefix in prefixes)


@dataclass(frozen=True)
class NoLevelTooMany(HeavyHitters):
    """A twin that draws no level after the end of a word."""

    def privatise(self, item, noise=None):
        chance = noise or EphemeralNoise()
        level = int(chance.uniform(max(len(self.spelling.clean(item)), 1), 1)[0])
        sketch = self.sketches[level]
        sent = sketch.privatise(self.spelling.prefixes(item)[level], chance)
        return bytes([level * sketch.codes + sent[0]])


@dataclass(frozen=True)
class CertainLevels(HeavyHitters):
    """A twin whose standard error forgets that levels were drawn."""

    @property
    def spread(self):
        return replace(super().spread, own=self.levels * self.sketches[-1].spread.own)


def as_twin(kind, claim=TINY):
    return kind(**{name: getattr(claim, name) for name in claim.__dataclass_fields__})


def every_word(spelling):
    sizes = range(spelling.length + 1)
    return ["".join(each) for size in sizes for each in product(spelling.alphabet, repeat=size)]


def test_one_level_is_private_and_twin_with_all_levels_fails():
    assert keeps(TINY, [law(TINY, word) for word in WORDS])
    condemned = [law(as_twin(EveryLevel), word) for word in WORDS]
    assert not keeps(TINY, condemned)
    assert float(worst_ratio(condemned)) == pytest.approx(np.e**2, rel=1e-8)


def test_twin_with_word_dependent_levels_reveals_the_length():
    with pytest.raises(AssertionError, match="some item never sends what another does"):
        worst_ratio([law(as_twin(NoLevelTooMany), word) for word in ("aa", "a")])


def test_variance_includes_the_random_choice_of_level(monkeypatch):
    counts = Counter({"aa": 5, "bb": 3, "ab": 0})
    found = moments(TINY, counts, monkeypatch)
    assert found.mean == pytest.approx(list(counts.values()))
    for claim, right in ((TINY, True), (as_twin(CertainLevels), False)):
        stated = [claim.variance(count, 8, 34 - count**2) for count in counts.values()]
        assert (found.variance == pytest.approx(stated)) == right


@pytest.mark.parametrize("spelling", SPELLINGS, ids=str)
def test_extensions_reach_exactly_the_words_level_by_level(spelling):
    words, reached = every_word(spelling), ("",)
    for level in range(spelling.levels):
        before, reached = reached, spelling.extend(reached, level)
        assert len(set(reached)) == len(reached)
        assert set(reached) == {spelling.prefix(word, level) for word in words}
        assert len(spelling.extend(before[:1], level)) <= spelling.branches
    assert sorted(reached) == sorted(words)


@pytest.mark.parametrize("spelling", SPELLINGS, ids=str)
def test_each_prefix_of_a_word_extends_the_previous_one(spelling):
    for word in every_word(spelling):
        prefixes = ("", *spelling.prefixes(word))
        for level in range(spelling.levels):
            assert prefixes[level + 1] in spelling.extend(prefixes[level : level + 1], level)


def test_cleaning_a_word_never_raises():
    spelling = Spelling("abcé🔥", 4, 2)
    cleaned = {"Abba!": "bba", "aaaaaa": "aaaa", "é🔥é": "é🔥é", "\ud800a": "a", "a" + END: "a", "": ""}
    assert {word: spelling.clean(word) for word in cleaned} == cleaned
    assert {spelling.clean(item) for item in (None, 7, 2.5, ["a"], True, b"a")} == {""}
    assert spelling.prefixes("abc") == ("ab", "abc")
    assert Spelling("abc", 5, 2).prefixes("ab") == ("ab", "ab" + END, "ab")


def test_frequent_words_of_500000_devices_are_found_with_counts():
    rng = np.random.default_rng(7)
    sizes, share = rng.integers(2, 9, 1000), 1 / np.arange(1, 1001) ** 1.2
    words = ["".join(rng.choice(list("abcdefghijklmnopqrstuvwxyz"), size)) for size in sizes]
    drawn = rng.choice(1000, 500_000, p=share / share.sum())
    counts = np.bincount(drawn, minlength=1000)
    claim = HeavyHitters(Pure(4), length=8)
    collector = claim.build_collector()
    collector.add(claim.privatise_many([words[place] for place in drawn], InsecureNoise(1)))
    found = collector.find()
    prefixes = Counter()
    for word, count in zip(words, counts.tolist(), strict=True):
        prefixes[word[:2]] += count
    squares = sum(count**2 for count in prefixes.values())
    frequent = counts >= claim.smallest_count(500_000, 0.99, squares)
    errors = (found.count - [counts[words.index(word)] for word in found.items]) / found.stddev
    assert 4 <= frequent.sum() <= len(found.items)
    assert {word for word, often in zip(words, frequent, strict=True) if often} <= set(found.items)
    assert chi2(len(errors)).sf((errors**2).sum()) > FLUKE


def searched(claim, times, reports):
    """Return how often a word of the predicted count and one of half the floor are found.

    The third number is that of found words of no device.
    """
    floor, often = claim.floor(reports), round(claim.smallest_count(reports, 0.9))
    words = ["abca"] * often + ["dd"] * round(floor / 2)
    rest = ["".join(each) for each in product("abc", repeat=3)]
    words += [rest[place % len(rest)] for place in range(reports - len(words))]
    noise, known, found = InsecureNoise(5), {"abca", "dd", *rest}, []
    for seed in range(times):
        collector = replace(claim, seed=seed).build_collector()
        collector.add(replace(claim, seed=seed).privatise_many(words, noise))
        found.append(set(collector.find().items))
    return [sum("abca" in each for each in found), sum("dd" in each for each in found)], sum(
        len(each - known) for each in found
    )


def test_word_is_found_as_predicted_and_rare_ones_are_not():
    (often, seldom), nobodys = searched(SMALL, times=60, reports=2000)
    assert binom(60, 0.9).cdf(often) > 1e-3  # with a fixed seed; 46 of 60 would fail
    assert binom(60, 0.005).sf(seldom - 1) > FLUKE
    assert nobodys <= 3


@dataclass(frozen=True)
class NormalFloor(HeavyHitters):
    """A twin that treats collisions as normal."""

    def floor(self, reports, squares=None, search=DEFAULT_SEARCH, copies=1):
        tail = 4 * search.tail(self.levels, self.spelling.branches)
        return norm.isf(tail) * self.stddev(0, reports, float(reports) ** 2 if squares is None else squares)


def found_beside(claim, times):
    """Return the words that are found next to a dominant word: frequent ones, and absent ones."""
    others = ["".join(each) for each in product("aeiou", "xyz")]
    words = ["heav"] * 14_000 + ["quiz"] * 3_000 + [others[place % 15] for place in range(3_000)]
    noise, found = InsecureNoise(6), []
    for seed in range(times):
        each = replace(claim, seed=10 * seed)
        collector = each.build_collector()
        collector.add(each.privatise_many(words, noise))
        found.append(set(collector.find().items))
    return (
        sum("heav" in each for each in found),
        sum("quiz" in each for each in found),
        sum(len(each - set(words)) for each in found),
    )


def test_frequent_words_are_found_next_to_a_dominant_one():
    claim = HeavyHitters(Pure(6), length=4, step=2, hashes=8, width=64)
    assert found_beside(claim, times=6) == (6, 6, 0)
    twin = as_twin(NormalFloor, claim)
    assert found_beside(twin, times=6)[2] > 5


def test_subtracted_items_leave_the_sketch_of_the_rest():
    sketch = HadamardCountMeanSketch(Pure(6), hashes=8, width=16)
    collector = sketch.build_collector()
    collector.add(sketch.privatise_many(["a"] * 6000 + ["b"] * 3000 + ["c"] * 1000, InsecureNoise(1)))
    whole = Residue(sketch, read_state(collector).table, 10_000, 10_000.0)
    left = whole.subtract(["a", "b"], np.array([6000.0, 3000.0]))
    assert left.remaining_reports == 1000
    alone = sketch.stddev(0, 10_000)
    assert np.abs(left.counts(["a", "b", "c", "d"]) - [0, 0, 1000, 0]).max() < 5 * alone
    assert left.squares() < 0.1 * whole.squares()
    back = left.subtract(["b", "a"], np.array([-3000.0, -6000.0]))
    assert back.table == pytest.approx(read_state(collector).table)


def test_twin_that_ignores_shared_devices_predicts_too_much():
    @dataclass(frozen=True)
    class OneLevel(HeavyHitters):
        def smallest_count(self, *settings):
            return super().smallest_count(*settings) / self.levels

    (often, _), _ = searched(as_twin(OneLevel, SMALL), times=20, reports=2000)
    assert binom(20, 0.9).cdf(often) < FLUKE


def test_number_of_prefixes_limits_search_and_prediction():
    claim = replace(SMALL, loss=Pure(8))
    collector = claim.build_collector()
    collector.add(claim.privatise_many(["aa"] * 400 + ["bb"] * 700 + ["cccc"] * 500, InsecureNoise(1)))
    assert collector.find().items == ("bb", "cccc", "aa")
    assert collector.find(search=Search(max_prefixes=2)).items == ("bb", "cccc")
    assert claim.smallest_count(1600, search=Search(max_prefixes=2)) > 1600
    assert [collector.find(count).items for count in (0, 1)] == [(), ("bb",)]
    assert collector.find(min_count=600).items == ("bb",)


def test_no_word_is_found_without_reports_or_common_words():
    assert SMALL.build_collector().find().items == ()
    collector = SMALL.build_collector()
    collector.add(SMALL.privatise_many(every_word(Spelling("abcd", 4, 2)), InsecureNoise(1)))
    assert collector.find().items == ()


def test_collectors_of_words_merge_load_and_slide():
    claim = replace(SMALL, loss=Pure(8))
    reports = claim.privatise_many(["abba"] * 600, InsecureNoise(1))
    parts = [claim.build_collector(), claim.build_collector()]
    for collector, part in zip(parts, np.array_split(reports, 2), strict=True):
        collector.add(part)
    both = claim.load((parts[0] + parts[1]).save())
    assert isinstance(both, WordCollector)
    assert both.find().items == ("abba",)
    windowed = WindowedCollector(claim, window=2)
    seen = []
    for batch in (reports, b"", b""):
        windowed.step(batch)
        seen.append(windowed.collector.find().items)
    assert seen == [("abba",), ("abba",), ()]


def found_among_repeated(times, sent, **told):
    """Return absent words that are found, and how often one of the predicted count is.

    Every device repeats its report.
    """
    claim = HeavyHitters(Pure(4), alphabet="abcd", length=4, step=2, hashes=256, width=64)
    often = round(claim.smallest_count(1000 * sent, 0.9, copies=sent) / sent)
    rest = ["".join(each) for each in product("abc", repeat=3)]
    words = ["dada"] * often + [rest[place % len(rest)] for place in range(1000 - often)]
    noise, found = InsecureNoise(5), []
    for seed in range(times):
        each = replace(claim, seed=10 * seed)
        collector = each.build_collector()
        collector.add(np.repeat(each.privatise_many(words, noise), sent, axis=0))
        found.append(set(collector.find(**told).items))
    return sum(len(each - set(words)) for each in found), sum("dada" in each for each in found)


def test_floor_accounts_for_repeated_reports():
    nobodys, predicted = found_among_repeated(30, 10, copies=10)
    assert nobodys <= 2
    assert binom(30, 0.9).cdf(predicted) > 1e-3
    assert found_among_repeated(5, 10)[0] > 10


def test_errors_of_found_words_equal_those_of_estimates():
    claim = replace(SMALL, loss=Pure(8))
    collector = claim.build_collector()
    collector.add(np.repeat(claim.privatise_many(["abba"] * 600, InsecureNoise(1)), 3, axis=0))
    found = collector.find(copies=3)
    assert found.items == ("abba",)
    assert found.stddev == pytest.approx(collector.estimate(["abba"], 3).stddev)
    assert found.errors.copies == 3
    with pytest.raises(ValueError, match="copies must be a whole number of at least 1, got 0"):
        collector.find(copies=0)


def test_default_step_is_the_longest_searchable_one():
    steps = {letters: HeavyHitters(Pure(1), alphabet=letters).step for letters in ("a", "ab", "abcdefghij")}
    assert steps == {"a": 12, "ab": 10, "abcdefghij": 3}
    assert (HeavyHitters(Pure(1)).step, HeavyHitters(Pure(1)).levels) == (2, 6)
    assert HeavyHitters(Pure(1)) == HeavyHitters(Pure(1), step=2)
    assert len({sketch.seed for sketch in HeavyHitters(Pure(1)).sketches}) == 6


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"alphabet": ""}, "alphabet must be letters, each once, got ''"),
        ({"alphabet": "aba"}, "alphabet must be letters, each once, got 'aba'"),
        ({"alphabet": "a\0"}, "alphabet must be without NUL"),
        ({"alphabet": "a\ud800"}, "alphabet must be without NUL, which ends words, and half characters"),
        ({"length": 0}, "length must be a whole number of at least 1, got 0"),
        ({"step": 13}, "step must be at most 12, got 13"),
        ({"step": 4}, "step must be such that a prefix has at most 65536 extensions, got 4"),
        ({"width": 12}, "width must be a power of 2, got 12"),
        ({"seed": 2**53 - 1}, "seed must be at most"),
        ({"hashes": 2**18}, r"hashes must be at most 2\*\*30 / \(width x 6 levels\), got 262144"),
    ],
)
def test_invalid_settings_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        HeavyHitters(**{"loss": Pure(1), **settings})


def test_invalid_searches_are_refused():
    with pytest.raises(ValueError, match="max_prefixes must be a whole number of at least 1, got 0"):
        Search(max_prefixes=0)
    with pytest.raises(ValueError, match="mistakes must be above 0 and below 1, got 1"):
        Search(mistakes=1)
    with pytest.raises(ValueError, match=r"max_prefixes must be at most 5966 if a prefix has 703 extensions, got 9"):
        HeavyHitters(Pure(1)).floor(1000, search=Search(max_prefixes=9000))
    with pytest.raises(ValueError, match=r"confidence must be above 0\.5 and below 1, got 1"):
        SMALL.smallest_count(1000, 1)
