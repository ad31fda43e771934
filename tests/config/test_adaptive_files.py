"""Mechanisms that adapt to their data in pipeline files: named, set, pinned, chosen, and refused."""

import json
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamgauge import Event, Pure, User, WEvent, Zcdp, adaptive
from streamgauge.config.canonical import to_canonical_json
from streamgauge.config.mechanism import build_setting_rules, find_mechanisms, parse_json_setting
from streamgauge.config.settings import Column, Release, Stream
from streamgauge.continual import Kary, LinearMechanism, WindowSum
from streamgauge.plan import few_events
from streamgauge.plan.parts import build_parts
from streamgauge.plan.planner import apply_choice, build_choice
from streamgauge.plan.predict import build_hints, describe_dependence, find_lost_events
from streamgauge.plan.rollups import build_hierarchy
from streamgauge.postprocess import Hierarchy
from streamgauge.sql import parse
from streamgauge.statistics import Count, MechanismConfig, Sum
from streamgauge.testing.noise import InsecureNoise
from tests.support.clinic_file import changed, refusal, release

TREE = Hierarchy([2, 2, None])
HOUR, LABELS = 3_600_000_000, ("a", "b", "c", "d")
COLUMNS = {
    "g": Column("g", values=LABELS[:2]),
    "h": Column("h", values=LABELS[:3]),
    "i": Column("i", values=LABELS),
    "x": Column("x", "number", bounds=(Fraction(0), Fraction(10)), grid=Fraction(1)),
    "key": Column("key", max_groups=5),
}


def stream(unit: Any = None) -> Stream:
    whole = {"time_format": "iso", "timezone": "UTC", "tick": HOUR, "start": 0, "end": 2**14 * HOUR}
    made: dict[str, Any] = {"name": "v", "source": "v.jsonl", "format": "jsonl", "compression": None}
    made |= {"mode": "batch", "time": "ts", "unit": unit or Event(), "budget": Pure(1)}
    return Stream(**made, **whole, columns=COLUMNS)  # type: ignore[arg-type]  # as the file says


def parts(sql: str = "SELECT COUNT(*) FROM v", *, unit: Any = None, **asked: Any) -> Any:
    """The parts of a release of 2^14 ticks."""
    events = stream(unit)
    made: dict[str, Any] = {"loss": Pure(1), "horizon": 2**14, **asked}
    return build_parts(Release("r", sql, **made), parse(sql, events, {}), events)


@pytest.mark.parametrize(
    ("mechanism", "settings"),
    [
        ("Pegasus", {}),
        ({"name": "Pegasus", "smoother": "average"}, {"smoother": "average"}),
        ({"name": "Pegasus", "split": Decimal("0.75"), "theta": 20}, {"split": Fraction(3, 4), "theta": 20}),
        ({"name": "PegasusHierarchy", "shares": [Decimal("0.5"), Decimal("0.5")]}, {"shares": (Fraction(1, 2),) * 2}),
        ({"name": "SparseCounter", "threshold": 9, "split": "3/7"}, {"threshold": 9, "split": Fraction(3, 7)}),
        ({"name": "Pegasus", "prune": "1/2"}, {"prune": Fraction(1, 2)}),
    ],
)
def test_words_and_numbers_are_settings(tmp_path: Path, mechanism: Any, settings: dict[str, Any]) -> None:
    read = changed(tmp_path, release(mechanism=mechanism)).releases[0]
    name = mechanism if isinstance(mechanism, str) else mechanism["name"]
    assert (read.mechanism, read.settings) == (name, settings)


@pytest.mark.parametrize(
    ("mechanism", "words"),
    [
        ("Pegasos", 'must be "auto" or the name of a mechanism, got "Pegasos" (did you mean Pegasus?)'),
        ("AdaptiveRelease", 'must be "auto" or the name of a mechanism'),
        ("AdaptiveMechanism", 'must be "auto" or the name of a mechanism'),
        ("BudgetAbsorb", 'got "BudgetAbsorb" (did you mean BudgetAbsorption?)'),
        ({"name": "CascadingBuffers", "ratio": "1/2"}, 'ratio must be a whole number, got "1/2"'),
        ({"name": "PegasusHierarchy", "consistent": 1}, "consistent must be true or false, got 1"),
        ({"name": "Pegasus", "smoother": 3}, "smoother must be a word, got 3"),
        ({"name": "Pegasus", "smoother": "3"}, 'smoother must be a word, got "3"'),
        ({"name": "Pegasus", "theta": "five"}, 'theta must be a number such as 5 or "4/5", got "five"'),
        ({"name": "Pegasus", "window": "each"}, "unknown key release.fever_by_region.mechanism.window"),
        ({"name": "SparseCounter", "signed": True}, "unknown key release.fever_by_region.mechanism.signed"),
        ({"name": "PegasusHierarchy", "hierarchy": 1}, "unknown key release.fever_by_region.mechanism.hier"),
        ({"name": "Pegasus", "lowest": 0}, "mechanism.lowest: it follows from the rest of the release"),
        ({"name": "PegasusHierarchy", "shares": "1/2"}, "shares must be an array of numbers"),
        ({"name": "PegasusHierarchy", "shares": [1, "a"]}, "shares must be an array of numbers"),
    ],
)
def test_what_is_no_setting_is_refused_in_one_line(tmp_path: Path, mechanism: Any, words: str) -> None:
    assert words in refusal(lambda: changed(tmp_path, release(mechanism=mechanism)))


def test_every_mechanism_of_the_room_can_be_named() -> None:
    known = {name for name in adaptive.__all__ if hasattr(getattr(adaptive, name), "ERROR_DEPENDS_ON")}
    assert known <= set(find_mechanisms())
    assert len(known) == 8
    assert {"smoother", "split", "theta"} <= set(build_setting_rules()["Pegasus"])


CLAIMS: dict[str, Any] = {
    "Pegasus": {"smoother": "james_stein", "split": Fraction(2, 3), "theta": 40, "max_group_ticks": 7},
    "PegasusHierarchy": {"hierarchy": TREE, "shares": (Fraction(1, 3), Fraction(2, 3)), "prune": Fraction(1, 2)},
    "WEventUniform": {},
    "WEventSample": {},
    "BudgetDistribution": {},
    "BudgetAbsorption": {},
    "SparseCounter": {"split": Fraction(3, 7), "threshold": 11, "segments": 5},
    "CascadingBuffers": {},
}


@pytest.mark.parametrize("name", CLAIMS)
@pytest.mark.parametrize("given", [True, False])
def test_a_choice_comes_back_from_json_as_the_very_counter(name: str, given: bool) -> None:
    claim: Any = find_mechanisms()[name]
    settings = CLAIMS[name] if given else {k: v for k, v in CLAIMS[name].items() if k == "hierarchy"}
    window = "running" if claim.WINDOWS == ("running",) else "each"
    asked: dict[str, Any] = {"horizon": 64, "window": window, "unit": WEvent(3)}
    if claim.WINDOWS == ("running",):
        asked["unit"] = Event()
    for statistic in (Count(Pure(1), **asked), Sum(Pure(1), lower=-2, upper=3, **asked)):
        counted = replace(statistic, mechanism=MechanismConfig.build(claim, **settings))
        choice = json.loads(json.dumps(build_choice(counted)))
        again = apply_choice(statistic, choice)
        assert again.counter == counted.counter
        assert choice["mechanism"] == name
        assert apply_choice(again, json.loads(json.dumps(build_choice(again)))).identity() == again.identity()


def test_settings_come_back_from_the_block_that_is_pinned() -> None:
    settings = {"smoother": "average", "split": Fraction(1, 3), "theta": 5, "shares": (1, Fraction(1, 2))}
    told = json.loads(to_canonical_json(settings))
    assert {name: parse_json_setting(value) for name, value in told.items()} == settings


OUT = "leave mechanism out"
COUNTED, DISTINCT = "SELECT COUNT(*) FROM v", "SELECT COUNT(DISTINCT g) FROM v"
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("SELECT AVG(x) FROM v", {}, f"AVG cannot use Pegasus: {OUT}"),
    ("SELECT COUNT(*), AVG(x), STDDEV(x) FROM v", {}, f"AVG and STDDEV cannot use Pegasus: {OUT}"),
    ("SELECT MAX(x) FROM v", {}, f"MAX cannot use Pegasus: {OUT}"),
    ("SELECT MEDIAN(x) FROM v", {}, f"MEDIAN or QUANTILE cannot use Pegasus: {OUT}"),
    ("SELECT COUNT(x), SUM(x) FROM v", {}, f"COUNT and SUM, which share a run, .* two releases, or {OUT}"),
    (DISTINCT, {"window": "running"}, 'more than one tick cannot use Pegasus: ask for window = "each"'),
    (DISTINCT, {"window": "running", "mechanism": "SparseCounter"}, f"cannot use SparseCounter: {OUT}"),
    ("SELECT key, COUNT(*) FROM v GROUP BY key", {"delta": Fraction(1, 10**6)}, "discovered cannot use"),
    (COUNTED, {"window": "decayed 3"}, '"each" or "sliding ..." or "running" for Peg.* "decayed half-life 3h"'),
    (COUNTED, {"mechanism": "WEventSample", "window": "running"}, 'window must be "each" for WEventSample'),
    (COUNTED, {"mechanism": "Kary"}, 'window must be "running" for Kary, got "each"'),
    (COUNTED, {"mechanism": "PolynomialDecay"}, 'must be "decayed polynomial ..." for Poly.*, got "each"'),
    (
        COUNTED,
        {"mechanism": "auto", "window": "decayed polynomial 2", "horizon": None},
        'horizon must be given with window = "decayed polynomial 2", got none: give one such as "365d"',
    ),
    (COUNTED, {"loss": Zcdp(1)}, "cost of Pegasus must be given as epsilon, got rho: give epsilon"),
    (COUNTED, {"loss": Zcdp(1), "share": Fraction(1, 2)}, "got a share of a budget that is kept in rho: give"),
    (COUNTED, {"mechanism": "SquareRoot", "window": "running"}, "must be given as rho, got epsilon"),
    (COUNTED, {"settings": {"smoother": "mode"}}, "smoother must be"),
    (COUNTED, {"mechanism": "WindowSum", "window": "running"}, 'must be "each" or "sliding ..." for Win'),
    (COUNTED, {"settings": {"prune": 1}}, "mechanism.prune must be left out without ROLLUP, got 1"),
    (COUNTED, {"mechanism": "PegasusHierarchy"}, r"must have GROUP BY ROLLUP \(...\), got none: name Pegasus"),
    (COUNTED, {"mechanism": "BudgetAbsorption", "unit": User(1, 3)}, 'unit must be "event" or { w_event = '),
    (COUNTED, {"mechanism": "CascadingBuffers", "window": "running", "horizon": None}, "Buffers, got none: give"),
]


@pytest.mark.parametrize(("sql", "asked", "words"), REFUSED)
def test_what_cannot_adapt_is_refused_when_it_is_planned(sql: str, asked: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words) as refused:
        parts(sql, **{"mechanism": "Pegasus", "window": "each", **asked})
    assert not any(word in str(refused.value) for word in ("None", "Pure", "User(", "Fraction(", "linear"))


def test_a_twin_that_checks_no_fit_speaks_of_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamgauge.plan.parts.check_fit", lambda *_: None)
    with pytest.raises(ValueError, match="mechanism must be linear for Summary, got Pegasus"):
        parts("SELECT AVG(x) FROM v", mechanism="Pegasus", window="each")


@pytest.mark.parametrize("name", ["WEventUniform", "WEventSample", "BudgetDistribution", "BudgetAbsorption"])
def test_mechanisms_of_a_window_of_ticks_have_the_streams_unit(name: str) -> None:
    (part,) = parts("SELECT g, COUNT(*) FROM v GROUP BY g", mechanism=name, window="each", unit=WEvent(5))
    assert part.statistic.counter.w == 5


ROLLED = "SELECT {names}, COUNT(*) FROM v GROUP BY ROLLUP({names})"


@pytest.mark.parametrize("columns", [("g",), ("g", "h"), ("h", "g", "i")])
def test_a_hierarchy_has_the_places_of_a_release_in_their_order(columns: tuple[str, ...]) -> None:
    query = parse(ROLLED.format(names=", ".join(columns)), stream(), {})
    counts = {labels: 10**n for n, labels in enumerate(product(*(group.labels for group in query.groups)))}
    places = [labels for level in query.levels for labels in product(*(group.labels for group in query.groups[:level]))]
    expected = [sum(n for leaf, n in counts.items() if leaf[: len(place)] == place) for place in places]
    nodes = build_hierarchy(query).sum_leaves(np.array(list(counts.values()), object))
    assert nodes.tolist() == expected


def test_one_run_answers_all_levels_of_a_rollup_and_has_all_of_its_loss() -> None:
    (part,) = parts(ROLLED.format(names="g, h"), mechanism="Pegasus", window="each", settings={"theta": 9})
    counter = part.statistic.counter
    assert type(counter) is adaptive.PegasusHierarchy
    assert (counter.loss, counter.theta, part.width, part.level) == (Pure(1), 9, 6, 2)
    assert counter.hierarchy.leaves.tolist() == list(range(6))
    both = parts(ROLLED.format(names="g, h").replace("COUNT(*)", "COUNT(*), MAX(x)"), window="each")
    assert [part.level for part in both] == [2, 2, 1, 1, 0, 0]  # others have a run for each level


def test_settings_of_all_levels_are_given_under_the_name_that_was_asked_for() -> None:
    rolled: dict[str, Any] = {"sql": ROLLED.format(names="g, h"), "mechanism": "Pegasus", "window": "each"}
    (part,) = parts(**rolled, settings={"prune": 2, "shares": (Fraction(1, 3),) * 3})
    assert (part.statistic.counter.prune, len(part.statistic.counter.shares)) == (2, 3)
    with pytest.raises(ValueError, match="shares must be one for each of 3 levels, got 2"):
        parts(**rolled, settings={"shares": (Fraction(1, 2),) * 2})


def test_what_does_not_add_up_has_no_run_over_all_levels() -> None:
    rolled = ROLLED.format(names="g, h").replace("COUNT(*)", "COUNT(DISTINCT i)")
    with pytest.raises(ValueError, match="cannot use Pegasus under ROLLUP, since levels do not add up"):
        parts(rolled, mechanism="Pegasus", window="each")
    single = parts("SELECT g, COUNT(DISTINCT i) FROM v GROUP BY g", mechanism="Pegasus", window="each")
    assert type(single[0].statistic.counter) is adaptive.Pegasus


def test_without_a_rollup_pegasus_is_itself() -> None:
    (part,) = parts("SELECT g, COUNT(*) FROM v GROUP BY g", mechanism="Pegasus", window="each")
    assert type(part.statistic.counter) is adaptive.Pegasus
    assert part.statistic.counter.loss == Pure(1)


def mechanism_at(expected: float | None, **asked: Any) -> Any:
    return parts(expected_events=expected, **asked)[0].statistic.counter


def test_a_sparse_counter_is_chosen_only_where_what_is_expected_says_that_it_wins() -> None:
    few = mechanism_at(0.001)
    assert type(few) is adaptive.SparseCounter
    assert not few.signed
    for expected in (None, 50.0):
        assert isinstance(mechanism_at(expected), LinearMechanism)
    assert type(mechanism_at(0.001, mechanism="Kary")) is Kary
    assert type(mechanism_at(0.001, window="each")) is WindowSum
    assert isinstance(mechanism_at(0.001, loss=Zcdp(1)), LinearMechanism)


def test_what_is_expected_is_of_the_finest_groups() -> None:
    query = parse(ROLLED.format(names="g, h"), stream(), {})
    asked = Release("r", "", Pure(1), expected_events=0.5)
    assert [few_events.compute_expected(asked, query, level) for level in (2, 1, 0)] == [
        Fraction(1, 2),
        Fraction(3, 2),
        3,
    ]


def test_a_twin_that_offers_what_loses_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A counter for few events has a prediction too where there are many: a worse one, which must not win."""
    count = Count(Pure(1), horizon=2**14)
    found = few_events.compare_counters(count, Fraction(50))
    worst = next(offer for offer in found.offers if offer.mechanism is not None)
    assert worst.rmse > found.rmse
    monkeypatch.setattr(few_events, "compare_counters", lambda *_: replace(found, offers=(replace(worst, refusal=""),)))
    assert type(few_events.choose_counter(count, Fraction(50)).counter) is adaptive.SparseCounter


def test_a_reason_tells_what_was_expected_and_what_was_predicted() -> None:
    count = few_events.choose_counter(Count(Pure(1), horizon=2**14), Fraction(1, 1000))
    told = few_events.explain_choice(count, Fraction(1, 1000))
    assert told.startswith("chosen because expected_events = 0.001: predicted to be off by ")
    assert told.endswith(" whatever the data")
    assert few_events.explain_choice(count, None) == "chosen when it was charged"
    assert few_events.explain_choice(count, Fraction(50)) == "chosen when it was charged"


@pytest.mark.parametrize("text", ["1/200", "1/99999999999999999999"])
def test_what_is_expected_may_be_a_fraction_in_text_however_small(tmp_path: Path, text: str) -> None:
    read = changed(tmp_path, release(expected_events=text)).releases[0]
    assert read.expected_events == float(Fraction(text))
    assert type(mechanism_at(read.expected_events)) is adaptive.SparseCounter


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("Pegasus", {}, ("about the centre", 'smoother = "quiet" } is nearer')),
        ("Pegasus", {"smoother": "quiet"}, ("about the centre",)),
        ("SparseCounter", {}, ("about the centre", "says 0 until what has come is clear of noise")),
        ("CascadingBuffers", {}, ("about the centre", "says 0 until what has come is clear of noise")),
        ("WEventUniform", {}, ()),
        ("BudgetAbsorption", {}, ()),
        ("WindowSum", {}, ()),
    ],
)
def test_a_plan_says_what_to_mind(name: str, settings: dict[str, Any], words: tuple[str, ...]) -> None:
    window = "running" if name in ("SparseCounter", "CascadingBuffers") else "each"
    (part,) = parts(mechanism=name, settings=settings, window=window)
    told = build_hints(part.statistic)
    assert len(told) == len(words)
    assert all(word in hint for word, hint in zip(words, told, strict=True))


@pytest.mark.parametrize("name", [name for name in CLAIMS if name != "PegasusHierarchy"])
def test_whose_value_is_no_centre_the_plan_says_so(name: str) -> None:
    """Of every mechanism of the room: values and centres are one, or the plan tells them apart."""
    window = "running" if name in ("SparseCounter", "CascadingBuffers") else "each"
    (part,) = parts(mechanism=name, window=window, unit=WEvent(3))
    counts = np.array([[0], [9], [50], [50], [2], [0], [0], [70]])
    released = part.statistic.counter.start(noise=InsecureNoise(3)).feed(counts)
    assert bool(build_hints(part.statistic)) == (released.value != released.centre).any()


def test_of_a_hierarchy_a_plan_does_not_say_that_quiet_is_nearer() -> None:
    (part,) = parts(ROLLED.format(names="g, h"), mechanism="Pegasus", window="each")
    (told,) = build_hints(part.statistic)
    assert "about the centre" in told
    assert build_hints(part.statistic, certain=False) == ()


@pytest.mark.parametrize(
    ("groups", "lost"),
    [
        ("ROLLUP(g, h)", "without a declared g or h counts on no level"),
        ("ROLLUP(k, h)", "without a declared h counts on no level"),
        ("g, ROLLUP(h)", "without a declared h counts on no level"),
        ("h, ROLLUP(k)", None),
        ("ROLLUP(k)", None),
    ],
)
def test_a_plan_names_columns_of_a_rollup_without_which_an_event_counts_nowhere(groups: str, lost: str | None) -> None:
    names = [name for name in "ghk" if name in groups.replace("ROLLUP", "")]
    query = parse(f"SELECT {', '.join(names)}, COUNT(*) FROM v GROUP BY {groups}", open_stream(), {})
    for mechanism in ("Pegasus", "auto"):
        (part, *_) = build_parts(Release("r", "", Pure(1), window="each", mechanism=mechanism), query, open_stream())
        told = find_lost_events(part.statistic, query)
        assert bool(told) == (lost is not None and mechanism == "Pegasus")
        assert all(str(lost) in hint and "declare other = true" in hint for hint in told)


def open_stream() -> Stream:
    """The stream, with a column that every event has a label of."""
    return replace(stream(), columns=COLUMNS | {"k": Column("k", values=LABELS, other=True)})


def test_what_an_error_depends_on_is_as_it_is_set() -> None:
    rolled: dict[str, Any] = {"sql": ROLLED.format(names="g, h"), "mechanism": "Pegasus", "window": "each"}
    for prune, read in ((0, False), (1, True)):
        (part,) = parts(**rolled, settings={"prune": prune})
        assert ("need not be read" in describe_dependence(part.statistic)) == read
