"""The choice of a protocol: the least predicted error for the available bits, or a refusal."""

from math import exp

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.localdp import choose, compare
from streamgauge.testing.noise import InsecureNoise

NAMES = {
    "RandomisedResponse",
    "UnaryEncoding",
    "HadamardResponse",
    "LocalHashing",
    "CountMeanSketch",
    "HadamardCountMeanSketch",
}


def named(*asked, **more):
    return type(choose(*asked, **more)).__name__


@pytest.mark.parametrize(
    ("domain", "epsilon", "report_bits", "chosen"),
    [
        (3, 1, None, "RandomisedResponse"),
        (2600, 8, None, "RandomisedResponse"),
        (100, 1, None, "UnaryEncoding"),
        (2600, 4, None, "UnaryEncoding"),
        (2600, 4, 32, "LocalHashing"),
        (2600, 1, 12, "HadamardResponse"),
        (10**7, 2, None, "LocalHashing"),
        (None, 1, None, "LocalHashing"),
        (None, 4, 64, "LocalHashing"),
    ],
)
def test_the_choice_is_that_of_the_table(domain, epsilon, report_bits, chosen):
    claim = choose(domain, epsilon, report_bits=report_bits)
    assert type(claim).__name__ == chosen
    assert report_bits is None or claim.report_bits <= report_bits


def test_randomised_response_is_best_up_to_the_predicted_size():
    edge = int(3 * exp(2) + 2)
    below, above = (compare(size, 2).choices for size in (edge, edge + 2))
    assert (below[0].name, above[0].name) == ("RandomisedResponse", "UnaryEncoding")
    assert {each.name for each in below} == {each.name for each in above} == NAMES


def test_predictions_are_the_formulas_of_the_table():
    e, r, d, n = exp(2), exp(1), 500, 10**6
    found = {
        each.name: (each.stddev**2 / n, each.mechanism) for each in compare(d, 2, reports=n, heaviest=1e-9).choices
    }
    width = found["CountMeanSketch"][1].width
    assert {name: variance for name, (variance, _) in found.items()} == pytest.approx(
        {
            "RandomisedResponse": (e + d - 2) / (e - 1) ** 2,
            "UnaryEncoding": 4 * e / (e - 1) ** 2,
            "HadamardResponse": ((e + 1) / (e - 1)) ** 2,
            "LocalHashing": 4 * e / (e - 1) ** 2,
            "CountMeanSketch": r / (r - 1) ** 2 + 1 / width,
            "HadamardCountMeanSketch": ((e + 1) / (e - 1)) ** 2,
        },
        rel=0.03,
    )


def test_best_choice_is_shortest_of_nearly_least_errors():
    for domain, epsilon in ((2000, 1), (None, 1)):
        found = compare(domain, epsilon)
        fitting = [each for each in found.choices if not each.refusal]
        near = [each for each in fitting if each.stddev <= 1.05 * fitting[0].stddev]
        assert fitting == sorted(fitting, key=lambda each: each.stddev)
        assert found.best.report_bits == min(each.report_bits for each in near)


@pytest.mark.parametrize("report_bits", [5, 12, 64])
def test_more_bits_are_never_worse(report_bits):
    fewer, more = (compare(2000, 2, report_bits=bits) for bits in (report_bits, 2 * report_bits))
    assert all(each.refusal or each.report_bits <= report_bits for each in fewer.choices)
    assert min(each.stddev for each in more.choices if not each.refusal) <= 1.01 * min(
        each.stddev for each in fewer.choices if not each.refusal
    )


def test_heavier_items_and_more_reports_want_more_cells():
    light, heavy = (choose(None, 4, heaviest=share, reports=10**5) for share in ("1/1000", 1))
    assert heavy.hashes * heavy.width > light.hashes * light.width
    few, many = (choose(None, 4, reports=reports) for reports in (10**3, 10**6))
    assert many.hashes * many.width > few.hashes * few.width


def test_list_gives_the_items_and_number_counts_from_zero():
    assert choose(["no", "yes"], 1).items == ("no", "yes")
    assert choose(np.int64(3), "1/2").items == (0, 1, 2)
    assert choose(3, sg.Pure(1)) == choose(3, 1)
    assert choose(None, 1, seed=9).seed == 9


def test_chosen_mechanism_has_the_predicted_error():
    for domain in (3, 40, None):
        claim = choose(domain, 4, reports=2000)
        collector = claim.build_collector()
        collector.add(claim.privatise_many([0] * 1000 + [1] * 1000, InsecureNoise(2)))
        found = collector.estimate([0, 1, 2])
        assert (np.abs(found.count - [1000, 1000, 0]) < 6.5 * found.stddev).all()


def test_too_few_bits_are_refused_with_the_needed_number():
    with pytest.raises(ValueError, match="report_bits must be at least 5 for any protocol to fit, got 3"):
        choose(2000, 1, report_bits=3)
    assert choose(2000, 1, report_bits=5).report_bits == 5
    assert all(each.refusal for each in compare(2000, 1, report_bits=3).choices)
    assert named(2, 1, report_bits=1) == "RandomisedResponse"


def test_table_has_the_reason_of_each_refusal():
    lines = str(compare(None, 4, report_bits=64, reports=500)).splitlines()
    assert lines[0].split() == ["of", "500", "reports", "stddev", "bits"]
    assert sum("refused: its items must be known beforehand" in line for line in lines) == 3
    assert "refused: its items must be at most 2**20" in str(compare(2**20 + 1, 4))
    assert "refused: its reports have 100 bits" in str(compare(100, 4, report_bits=64))


@pytest.mark.parametrize(
    ("asked", "more", "words"),
    [
        ((1, 1), {}, "domain_size must be a whole number of at least 2, got 1"),
        ((True, 1), {}, "domain_size must be a whole number of at least 2, got True"),
        (("abc", 1), {}, "items must be a tuple of texts and whole numbers, got 'abc'"),
        ((2.5, 1), {}, "items must be a tuple of texts and whole numbers, got 2.5"),
        ((["a", "a"], 1), {}, "items must be distinct as texts, got 'a' twice"),
        ((3, 0), {}, "epsilon must be"),
        ((3, 1), {"report_bits": 0}, "report_bits must be a whole number of at least 1, got 0"),
        ((3, 1), {"reports": 0}, "reports must be a whole number of at least 1, got 0"),
        ((3, 1), {"heaviest": 0}, "heaviest must be above 0 and at most 1, got 0"),
        ((3, "1/100000000000"), {}, "settings must be such that some protocol keeps them, got refusals"),
        ((3, "1/100000000000"), {"report_bits": 8}, "settings must be such that some protocol keeps them"),
    ],
)
def test_settings_that_leave_no_choice_are_refused(asked, more, words):
    with pytest.raises(ValueError, match=words):
        choose(*asked, **more)
