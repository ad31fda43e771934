"""The rehearsal of an intrusion: the intruder's odds are exact and inside the promised bound."""

from dataclasses import replace
from math import e

import numpy as np
import pytest

from streamgauge.panprivate.intrusion_demo import (
    build_clinic,
    observe_sums,
    run_intrusion_demo,
    run_table_demo,
    second_look_odds,
    take_snapshot,
)
from streamgauge.server.routes.intrusions import describe_memory, is_rehearsal_visible
from streamgauge.testing.noise import InsecureNoise
from tests.support.people import House, Still
from tests.support.people import clinic as clinic_file

TIMES = 400_000  # so that a bias of 0.016 is ten standard errors and more
PATIENTS = 1500  # rehearsals of a table


def odds_of(blocks, scale):
    return np.exp(sum(block.log_odds(scale) for block in blocks))


def is_exact(odds):
    """Return whether odds against the truth have mean 1, as exact likelihood ratios have."""
    return abs(odds.mean() - 1) < 6.5 * odds.std() / np.sqrt(len(odds))


@pytest.fixture(scope="module")
def absent():
    return observe_sums(np.zeros(TIMES, bool))


def test_counter_odds_are_exact_likelihood_ratios(absent):
    assert is_exact(odds_of(*absent))
    assert is_exact(1 / odds_of(*observe_sums(np.ones(TIMES, bool))))


def test_odds_without_one_noise_draw_are_caught(absent):
    blocks, scale = absent
    assert not is_exact(odds_of([replace(block, draws=1) for block in blocks], scale))


def test_counter_odds_stay_inside_the_promised_bound(absent):
    odds = odds_of(*absent)
    assert 1 / e <= odds.min() <= odds.max() <= e
    assert odds.max() > 2


def test_noise_that_is_too_small_breaks_the_promise(absent):
    blocks, scale = absent
    assert odds_of(blocks, scale / 2).max() > e


@pytest.fixture(scope="module")
def table():
    """The odds of all rehearsals of a table, first without Robin, then with Robin."""
    return [run_table_demo(np.full(PATIENTS, came), InsecureNoise(came))["odds"] for came in (False, True)]


def test_table_odds_are_exact_likelihood_ratios(table):
    never, came = table
    assert is_exact(never)
    assert is_exact(1 / came)
    assert not is_exact(never**2), "odds that are overstated are caught"


def test_table_odds_stay_inside_the_promised_bound(table):
    odds = np.concatenate(table)
    assert 1 / e <= odds.min() <= odds.max() <= e
    assert odds.max() > 2


def test_second_intrusion_reveals_presence_in_counter_and_table():
    came = np.arange(40) % 2 == 0
    assert (second_look_odds(came) == np.where(came, np.inf, 0)).all(), "for any users"
    claim, noise = build_clinic(), InsecureNoise(0)
    assert any(np.isinf(take_snapshot(claim, True, noise).two_look_odds(claim)) for _ in range(40))
    assert not any(np.isinf(take_snapshot(claim, False, noise).two_look_odds(claim)) for _ in range(40))


def test_ordinary_memory_reveals_presence_and_pan_private_does_not():
    details = run_intrusion_demo(200)
    low, high = details["bounds"]["chance"]
    for kind in ("counter", "table"):
        plain = details[kind]["plain"]
        assert (plain["chance"], plain["seen"]) == (1, plain["without"] + 1)
        assert all(low <= chance <= high for chance in details[kind]["chance"])
        assert details[kind]["worst_odds"] <= e
        assert 1 in details[kind]["two_looks"]
    assert [block["released"] for block in details["counter"]["blocks"]] == [True, True, False, False]


@pytest.mark.parametrize(
    ("stream", "details"),
    [
        ({}, {"this_stream": "ordinary", "like": "counter"}),
        ({"pan_private": True}, {"this_stream": "pan-private", "like": "counter"}),
        (
            {"pan_private": True, "unit": {"user": "region"}, "end": "2026-01-05T01:00:00Z"},
            {"this_stream": "pan-private", "like": "table"},
        ),
    ],
)
def test_description_of_memory_follows_pipeline_file(tmp_path, stream, details):
    assert describe_memory(clinic_file(tmp_path, stream).stream) == {**details, "reports": []}


@pytest.mark.parametrize(
    ("stream", "server", "status"),
    [({}, {}, 404), ({}, {"show_intruder": True}, 200), ({"pan_private": True}, {}, 200)],
    ids=["ordinary", "shown", "pan-private"],
)
def test_rehearsal_is_served_if_shown_or_pan_private(tmp_path, stream, server, status):
    file = clinic_file(tmp_path, stream, **server)
    client = House(tmp_path, Still(file)).client("reader")
    assert client.get("/api/rehearsal").status_code == status
    assert is_rehearsal_visible(file) is (status == 200)
    assert client.get("/api/session").json()["role"] == "reader"
