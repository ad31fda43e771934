"""docs/extending.md: its aggregate, installed temporarily, is planned, predicted and run."""

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamgauge.config.errors import InvalidReleaseError
from streamgauge.plan.planner import plan_release
from streamgauge.plan.predict import predict_errors
from streamgauge.registry import RegistryError
from streamgauge.runtime import Pipeline
from streamgauge.sql.functions import load_functions
from streamgauge.store.keys import create_key
from streamgauge.testing.noise import SilentNoise
from tests.support.packages import write_package

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
MODULES = dict(re.findall(r"```python\n# (sg_share)\.py\n(.*?)```", PAGE.read_text(), re.DOTALL))
ENTRIES = {"streamgauge.aggregates": {"share_above": "sg_share:FUNCTION"}}
SQL = "SELECT region, SHARE_ABOVE(temperature, 38) FROM visits GROUP BY region"
ROWS = [("north", 36), ("north", 39), ("north", 40), ("north", 37), ("south", 39)] * 500


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.syspath_prepend(str(write_package(tmp_path / "package", "sg-outside", MODULES, ENTRIES)))
    yield "sg-outside"
    load_functions.cache_clear()
    for module in MODULES:
        sys.modules.pop(module, None)


def build_pipeline(folder: Path, sql: str, *allow: str) -> Pipeline:
    create_key(folder / "key")
    stream: dict[str, Any] = {"name": "visits", "source": "visits.jsonl", "mode": "batch", "time": "ts", "tick": "1h"}
    stream |= {"start": "2026-01-05T00:00:00Z", "end": "2026-01-05T02:00:00Z", "unit": "event"}
    stream |= {"budget": {"epsilon": 1}, "key": "file:key"}
    stream["columns"] = {"region": {"values": ["north", "south"]}, "temperature": {"type": "number"}}
    release = {"name": "fever", "sql": sql, "share": 1, "window": "each"}
    tables = {"stream": stream, "release": [release], "sink": [{"to": "out.jsonl"}]}
    if allow:
        tables["plugins"] = {"allow": list(allow)}
    return Pipeline.from_tables(tables, folder / "visits.toml")


def test_outside_aggregate_is_planned_predicted_and_run(package: str, tmp_path: Path) -> None:
    lines = [{"ts": "2026-01-05T00:10:00Z", "region": region, "temperature": number} for region, number in ROWS]
    (tmp_path / "visits.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    pipeline = build_pipeline(tmp_path, SQL, package)
    plan = plan_release(pipeline.file, pipeline.file.releases[0])
    (part,) = plan.parts
    assert part.statistic.loss == pipeline.file.releases[0].loss
    assert [aggregate.kind for aggregate in plan.query.aggregates] == ["share_above"]
    error = predict_errors(plan)[0]
    assert error.measure == "share_above_temperature_38"
    assert 0 < error.stddev < 0.1
    assert "at 1,000 events" in error.note
    pipeline.run(noise=SilentNoise())
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    shares = {row["group"]["region"]: row["share_above_temperature_38"]["value"] for row in rows if row["tick"] == 1}
    assert shares == {"north": 0.5, "south": 1.0}


def test_aggregate_of_a_package_that_is_not_allowed_is_unknown(package: str, tmp_path: Path) -> None:
    pipeline = build_pipeline(tmp_path, SQL)
    with pytest.raises(InvalidReleaseError, match="function SHARE_ABOVE is not in the dialect"):
        plan_release(pipeline.file, pipeline.file.releases[0])
    assert "sg_share" not in sys.modules


@pytest.mark.parametrize(
    ("sql", "refusal"),
    [
        ("SELECT SHARE_ABOVE(temperature) FROM visits", "SHARE_ABOVE needs an expression and a number"),
        ("SELECT SUM(SHARE_ABOVE(temperature, 38)) FROM visits", "an aggregate must stand alone in SELECT"),
        ("SELECT SHARE_BELOW(temperature, 38) FROM visits", "did you mean share_above"),
        ("SELECT SHARE_ABOVE(region, 38) FROM visits", "region|number|text"),
    ],
)
def test_outside_aggregate_refuses_wrong_calls(package: str, tmp_path: Path, sql: str, refusal: str) -> None:
    pipeline = build_pipeline(tmp_path, sql, package)
    with pytest.raises(InvalidReleaseError, match=refusal):
        plan_release(pipeline.file, pipeline.file.releases[0])


def test_outside_aggregate_refuses_adaptive_mechanisms(package: str, tmp_path: Path) -> None:
    pipeline = build_pipeline(tmp_path, SQL, package)
    release = replace(pipeline.file.releases[0], mechanism="Pegasus")
    with pytest.raises(InvalidReleaseError, match="SHARE_ABOVE cannot use Pegasus: leave mechanism out"):
        plan_release(pipeline.file, release)


@pytest.mark.parametrize("name", ["sum", "abs", "dow"])
def test_outside_aggregate_must_not_replace_a_name_of_sql(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = MODULES["sg_share"].replace('names=("share_above",)', f'names=("{name}",)')
    entries = {"streamgauge.aggregates": {"taken": "sg_taken:FUNCTION"}}
    monkeypatch.syspath_prepend(str(write_package(tmp_path, "sg-taken", {"sg_taken": source}, entries)))
    with pytest.raises(RegistryError, match=f"name of an aggregate must be free in SQL, got {name}"):
        load_functions(("sg-taken",))
    sys.modules.pop("sg_taken", None)
