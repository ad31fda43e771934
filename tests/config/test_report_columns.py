"""Columns of reports in a pipeline file: declarations, refusals and the SQL that they allow."""

import copy
import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from streamgauge.config.errors import InvalidReleaseError
from streamgauge.config.pipeline_file import parse_pipeline
from streamgauge.config.settings import PipelineFile
from streamgauge.localdp import HadamardCountMeanSketch
from streamgauge.plan.planner import ReleasePlan, plan_release
from streamgauge.privacy import Event, Pure
from streamgauge.statistics.local_frequency import LocalFrequency
from tests.support.clinic_file import REPORTED, REPORTED_KEYS, at, path_in, refusal

LISTED = {"hashes": None, "width": None, "seed": None}  # keys that a protocol of a list does not have
FORM = "can be queried only as SELECT emoji, COUNT(*) FROM poll GROUP BY emoji"


def poll(folder: Path, change: Callable[[dict[str, Any]], object] = lambda _: None) -> PipelineFile:
    top = copy.deepcopy(REPORTED)
    change(top)
    return parse_pipeline(top, path_in(folder))


def emoji(**settings: Any) -> Callable[[dict[str, Any]], None]:
    """Return a change of the column. A value of None removes its key."""

    def change(top: dict[str, Any]) -> None:
        column = top["stream"]["columns"]["emoji"] | settings
        top["stream"]["columns"]["emoji"] = {key: value for key, value in column.items() if value is not None}

    return change


def plan(folder: Path, **release: Any) -> ReleasePlan:
    file = poll(folder, lambda top: top["release"][0].update(release))
    return plan_release(file, file.releases[0])


def test_a_column_of_reports_is_read(tmp_path: Path) -> None:
    stream = poll(tmp_path).stream
    assert (stream.unit, stream.allow_reports_from, stream.mode) == (Event(replace=True), "anyone", "streaming")
    assert (stream.time, stream.time_format, stream.late) == ("arrived", "epoch us", "next_tick")
    (report,) = stream.reports.values()
    assert report.mechanism == HadamardCountMeanSketch(Pure(2), hashes=16, width=32, seed=7)
    assert (report.loss, report.user_loss) == (Pure(2), Pure(60))
    assert poll(tmp_path, emoji(on_repeat="repeat")).stream.reports["emoji"].user_loss == Pure(2)


@pytest.mark.parametrize("protocol", ["LocalHashing", "RandomisedResponse", "HadamardResponse"])
def test_every_protocol_of_whole_codes_can_be_a_column(tmp_path: Path, protocol: str) -> None:
    gone = {} if protocol == "LocalHashing" else {"hashes": None, "width": None, "seed": None}
    file = poll(tmp_path, emoji(report=protocol, **gone))
    claim = file.stream.reports["emoji"].mechanism
    assert type(claim).__name__ == protocol
    cell = plan_release(file, file.releases[0]).parts[0].measure.cell
    assert cell is not None
    assert (cell.count, cell.is_report) == (claim.codes, True)
    if gone:
        told = refusal(lambda: poll(tmp_path, emoji(report=protocol, hashes=None, width=None)))
        assert f"emoji.seed must be left out for {protocol}" in told


@pytest.mark.parametrize("protocol", ["CountMeanSketch", "UnaryEncoding"])
def test_every_protocol_of_vectors_can_be_a_column_of_texts(tmp_path: Path, protocol: str) -> None:
    gone = {} if protocol == "CountMeanSketch" else LISTED
    file = poll(tmp_path, emoji(report=protocol, **gone))
    column = file.stream.columns["emoji"]
    assert (column.kind, column.report and column.report.is_vector) == ("text", True)
    claim = file.stream.reports["emoji"].mechanism
    measure = plan_release(file, file.releases[0]).parts[0].measure
    assert measure.cell is not None
    assert (measure.cell.size, measure.cell.is_text, measure.key) == (claim.report_size, True, None)
    assert measure.text == f'CASE WHEN strlen("emoji") = {4 * -(-claim.report_size // 3)} THEN "emoji" END'


@pytest.mark.parametrize("protocol", ["HadamardCountMeanSketch", "CountMeanSketch"])
def test_column_of_reports_cannot_be_a_lookup_key(tmp_path: Path, protocol: str) -> None:
    def change(top: dict[str, Any]) -> None:
        emoji(report=protocol)(top)
        top["lookup"] = {"sites": {"file": "sites.csv", "on": "emoji"}}

    path_in(tmp_path).with_name("sites.csv").write_text("emoji,room\na,1\n")
    assert "lookup.sites.on must be a column of text" in refusal(lambda: poll(tmp_path, change))


def test_omitted_settings_of_vector_sketch_have_defaults(tmp_path: Path) -> None:
    left_out = poll(tmp_path, emoji(report="CountMeanSketch", hashes=None, width=None, seed=None))
    told = poll(tmp_path, emoji(report="CountMeanSketch", hashes=1024, width=1024, seed=0))
    assert left_out.stream.columns == told.stream.columns


@pytest.mark.parametrize("place", REPORTED_KEYS, ids=lambda place: ".".join(map(str, place)))
@pytest.mark.parametrize("wrong", [[[]], 10**5000], ids=["array", "huge"])
@pytest.mark.parametrize("protocol", ["HadamardCountMeanSketch", "CountMeanSketch", "UnaryEncoding"])
def test_wrong_value_for_reports_is_refused_by_its_key(
    tmp_path: Path, place: tuple[Any, ...], wrong: object, protocol: str
) -> None:
    gone = {} if protocol != "UnaryEncoding" else LISTED

    def change(top: dict[str, Any]) -> None:
        emoji(report=protocol, **gone)(top)
        at(top, place[:-1]).update({place[-1]: wrong})

    text = refusal(lambda: poll(tmp_path, change))
    assert place[-1] in text.partition(" must be ")[0]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"on_repeat": None}, 'emoji.on_repeat must be "repeat" or "charge", got nothing'),
        ({"reports_per_user": None}, "emoji.reports_per_user must be a whole number"),
        ({"on_repeat": "repeat", "reports_per_user": None}, "emoji.reports_per_user must be a whole number"),
        ({"epsilon": None}, "emoji.epsilon must be a number from"),
        ({"values": None}, "emoji.values must be an array of 1 to 10^5 values"),
        ({"values": ["a", 1]}, "all text (in one line) or whole numbers"),
        ({"values": [1.5]}, "all text (in one line) or whole numbers"),
        ({"values": ["a", "a"]}, 'must be different from each other, got "a" twice'),
        ({"width": 48}, "stream.columns.emoji: width must be a power of 2, got 48"),
        ({"hashes": 2**17, "width": 2**11}, "must have hashes x width of at most 2^27"),
        ({"bounds": [0, 1]}, "emoji.bounds must be left out for HadamardCountMeanSketch"),
        ({"report": "CountMeansSketch"}, "did you mean CountMeanSketch?"),
        ({"report": "HeavyHitters"}, 'or "UnaryEncoding", got "HeavyHitters"'),
        (
            {"report": "CountMeanSketch", "width": 2**16 + 1},
            "emoji.width must be at most 65536, the bits of a report of CountMeanSketch, got 65537",
        ),
        (
            {"report": "CountMeanSketch", "hashes": 2**17, "width": 2**11},
            "stream.columns.emoji must have hashes x width of at most 2^27, got 131072 x 2048",
        ),
        (
            {"report": "UnaryEncoding", **LISTED, "values": [*range(2**16 + 1)]},
            "emoji.values must be at most 65536, the bits of a report of UnaryEncoding, got 65537",
        ),
        ({"report": "UnaryEncoding", **LISTED, "values": ["a"]}, "stream.columns.emoji: items must be at least 2"),
        ({"report": "UnaryEncoding"}, "emoji.hashes must be left out for UnaryEncoding"),
        ({"report": None}, "emoji.epsilon must be left out unless there is a report = ..."),
    ],
)
def test_invalid_column_of_reports_is_refused_by_its_key(tmp_path: Path, settings: dict[str, Any], said: str) -> None:
    assert said in refusal(lambda: poll(tmp_path, emoji(**settings)))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"allow_reports_from": None},
            'stream.allow_reports_from must be "anyone" or "sender" or "curator", got nothing',
        ),
        ({"unit": "event"}, 'stream.unit must be "report" where source = "reports", got "event"'),
        ({"time": "ts"}, 'stream.time must be left out where source = "reports"'),
        ({"allowed_lateness": "5s"}, "stream.allowed_lateness must be left out"),
        ({"pan_private": True}, "(reports are private already, and sums of other columns are kept exactly)"),
        ({"mode": "batch"}, 'stream.mode must be "streaming"'),
        ({"source": "http", "time": "ts"}, 'stream.source must be "reports" where unit = "report", got "http"'),
        ({"source": "report"}, 'stream.source must be "reports" where unit = "report", got "report"'),
        (
            {"source": "http", "time": "ts", "unit": "event", "columns": {"age": {"values": ["old"]}}},
            "stream.allow_reports_from must be left out unless",
        ),
        (
            {"source": "http", "time": "ts", "unit": "event", "allow_reports_from": None},
            'stream.source must be "reports" where a column has reports (stream.columns.emoji), got "http"',
        ),
        (
            {"source": "report", "unit": "event"},
            'stream.source must be "reports" where a column has reports (stream.columns.emoji), got "report" '
            "(did you mean reports?)",
        ),
        ({"source": "report", "unit": "event", "allow_reports_from": None, "time": "ts"}, "where a column has reports"),
        ({"source": "reports.jsonl", "unit": {"w_event": 3}, "allow_reports_from": None}, "where a column has reports"),
    ],
)
def test_source_unit_and_senders_of_reports_must_agree(tmp_path: Path, settings: dict[str, Any], said: str) -> None:
    def change(top: dict[str, Any]) -> None:
        top["stream"] = {k: v for k, v in (top["stream"] | settings).items() if v is not None}

    assert said in refusal(lambda: poll(tmp_path, change))


def test_pinned_column_of_reports_has_its_declaration(tmp_path: Path) -> None:
    blocks = poll(tmp_path).blocks
    pinned = json.loads(blocks["stream"])
    assert pinned["unit"] == {"kind": "Event", "moves": False, "replace": True}
    assert pinned["columns"]["emoji"]["report"]["epsilon"] == "2"
    assert set(pinned["columns"]["age"]) == {"kind", "values"}
    assert json.loads(blocks["source"])["allow_reports_from"] == "anyone"
    assert poll(tmp_path, emoji(epsilon=Fraction(1))).blocks["stream"] != blocks["stream"]


@pytest.mark.parametrize("protocol", ["HadamardCountMeanSketch", "LocalHashing"])
def test_default_settings_of_reports_are_pinned(tmp_path: Path, protocol: str) -> None:
    """So a version with other defaults detects that the column has changed."""
    file = poll(tmp_path, emoji(report=protocol, hashes=None, width=None, seed=None))
    report = file.stream.reports["emoji"]
    own = {name: getattr(report.mechanism, name) for name in ("hashes", "width", "seed")}
    assert own.items() <= json.loads(file.blocks["stream"])["columns"]["emoji"]["report"].items()
    declared = poll(tmp_path, emoji(report=protocol, **own))
    assert declared.blocks == file.blocks


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT emoji, COUNT(*) FROM poll GROUP BY emoji", ("emoji", "count")),
        ("select count(*) AS n, emoji AS x from poll group by x", ("x", "n")),
        ("SELECT COUNT(*) FROM poll GROUP BY poll.emoji", ("emoji", "count")),
        ("SELECT emoji, COUNT(*) FROM poll GROUP BY 1", ("emoji", "count")),
    ],
)
def test_reports_of_a_column_can_be_counted_by_value(tmp_path: Path, sql: str, names: tuple[str, str]) -> None:
    made = plan(tmp_path, sql=sql)
    assert made.layout == {"measures": [names[1]], "groups": [(names[0], ["a", "b", "c"])], "levels": [1]}
    assert isinstance(made.parts[0].statistic, LocalFrequency)
    assert made.parts[0].measure.cell.count == 2 * 16 * 32
    assert made.release.loss == Pure(2)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT emoji, COUNT(*) FROM poll WHERE age = 'old' GROUP BY emoji",
        "SELECT age, COUNT(*) FROM poll WHERE emoji = 3 GROUP BY age",
        "SELECT COUNT(*) FROM poll WHERE emoji IS NULL",
        "SELECT COUNT(emoji) FROM poll",
        "SELECT COUNT(DISTINCT emoji) FROM poll",
        "SELECT emoji, COUNT(emoji) FROM poll GROUP BY emoji",
        "SELECT SUM(emoji) FROM poll",
        "SELECT emoji, age, COUNT(*) FROM poll GROUP BY emoji, age",
        "SELECT age, COUNT(*) FROM poll GROUP BY age, emoji",
        "SELECT emoji, COUNT(*) FROM poll GROUP BY ROLLUP (emoji)",
        "SELECT emoji, COUNT(*), COUNT(*) AS n FROM poll GROUP BY emoji",
        "SELECT emoji FROM poll GROUP BY emoji",
        "SELECT emoji + 1, COUNT(*) FROM poll GROUP BY emoji + 1",
        "SELECT age, AVG(CASE WHEN emoji > 5 THEN 1 ELSE 0 END) FROM poll GROUP BY age",
    ],
)
@pytest.mark.parametrize("protocol", ["HadamardCountMeanSketch", "CountMeanSketch"])
def test_other_queries_of_reports_are_refused(tmp_path: Path, sql: str, protocol: str) -> None:
    def change(top: dict[str, Any]) -> None:
        emoji(report=protocol)(top)
        top["release"][0].update(sql=sql, epsilon=1)

    file = poll(tmp_path, change)
    with pytest.raises(InvalidReleaseError, match=r"column emoji is of reports"):
        plan_release(file, file.releases[0])


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"epsilon": 1}, "epsilon must be left out, the reports of emoji have lost 2 already, got a cost"),
        ({"epsilon": 2}, "epsilon must be left out, the reports of emoji have lost 2 already, got a cost"),
        ({"share": "2/3"}, "epsilon must be left out, the reports of emoji have lost 2 already, got a cost"),
        ({"window": "decayed half-life 1m"}, 'window must be "running", "each" or "sliding ..."'),
        ({"window": "sliding 1d"}, "of at most 1024 ticks for reports, got 8640 ticks"),
        ({"mechanism": "Binary"}, 'mechanism must be left out for reports, got "Binary"'),
        ({"max_groups": 2}, "groups must be at most max_groups = 2, got 3 values of emoji"),
        ({"sql": "SELECT COUNT(*) FROM poll"}, "cost must be given as exactly one of epsilon, rho and share"),
    ],
)
def test_release_of_reports_with_invalid_settings_is_refused(
    tmp_path: Path, settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidReleaseError) as refused:
        plan(tmp_path, **settings)
    assert said in str(refused.value)
    assert str(refused.value).startswith("clinic.toml: release emoji: ")


def test_refusal_for_reports_names_the_supported_query(tmp_path: Path) -> None:
    with pytest.raises(InvalidReleaseError) as refused:
        plan(tmp_path, sql="SELECT MAX(emoji) FROM poll", epsilon=1)
    assert FORM in str(refused.value)


@pytest.mark.parametrize(
    ("again", "window", "copies"),
    [("repeat", "running", 30), ("repeat", "sliding 50s", 5), ("repeat", "each", 1), ("charge", "running", 1)],
)
def test_repeated_reports_widen_errors_by_copies_in_window(
    tmp_path: Path, again: str, window: str, copies: int
) -> None:
    def change(top: dict[str, Any]) -> None:
        emoji(on_repeat=again)(top)
        top["release"][0]["window"] = window

    file = poll(tmp_path, change)
    statistic: Any = plan_release(file, file.releases[0]).parts[0].statistic
    spread, squares = statistic.counter.spread, 1000**2 / 3
    assert statistic.copies == copies
    chance, collided = copies * 1000 * spread.other, (squares - copies * 1000) * spread.shared
    assert statistic.stddev(1000) ** 2 == pytest.approx(chance + collided)
