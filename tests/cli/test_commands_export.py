"""Export: wide CSV by default, long on request, and every row in every format."""

import csv
import json
from pathlib import Path

import duckdb
import pytest

from tests.support.clinics import TICKS, TOML, clinic, invoke, line_of

DISTRICTS = 300  # in 48 ticks: more rows than any page of the server has


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = clinic(tmp_path_factory.mktemp("exported"))
    assert invoke("run", file).exit_code == 0
    return file


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = clinic(tmp_path_factory.mktemp("many"))
    values = ", ".join(f'"d{number:03d}"' for number in range(DISTRICTS))
    wide = TOML.replace("[stream.columns]", f"[stream.columns]\ndistrict = {{ values = [{values}] }}")
    release = '[[release]]\nname = "districts"\nsql = "SELECT district, COUNT(*) FROM visits GROUP BY district"\n'
    file.write_text(f'{wide}\n{release}window = "each"\nepsilon = 0.25\n')
    assert invoke("run", file).exit_code == 0
    return file


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file, strict=True))


def test_one_release_is_a_wide_table(ran: Path, tmp_path: Path) -> None:
    found = invoke("export", ran, "--output", tmp_path / "fever.csv", "--release", "fever")
    assert (found.exit_code, found.stdout) == (0, "")
    records = read(tmp_path / "fever.csv")
    assert list(records[0])[:8] == [
        *("release", "tick", "start", "end", "region"),
        *("count", "count_stddev", "count_low"),
    ]
    assert "trace" not in records[0]
    assert [(record["tick"], record["region"]) for record in records] == [
        (str(tick), region) for tick in range(1, TICKS + 1) for region in ("north", "south")
    ]


def test_all_releases_share_one_header(ran: Path, tmp_path: Path) -> None:
    invoke("export", ran, "--output", tmp_path / "all.csv")
    invoke("export", ran, "--output", tmp_path / "all.jsonl")
    records = read(tmp_path / "all.csv")
    objects = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    assert len(records) == len(objects) == 3 * TICKS
    for record, row in zip(records, objects, strict=True):
        assert (record["release"], record["region"]) == (row["release"], row["group"].get("region", ""))
        assert float(record["count"]) == row["count"]["value"]
        assert bool(record["avg_temperature_reliable"]) == ("avg_temperature" in row)


def test_the_long_shape_has_a_line_per_measure(ran: Path, tmp_path: Path) -> None:
    assert invoke("export", ran, "--output", tmp_path / "long.csv", "--shape", "long").exit_code == 0
    assert len(read(tmp_path / "long.csv")) == TICKS * (2 * 2 + 1)
    wrong = invoke("export", ran, "--output", tmp_path / "a.jsonl", "--shape", "wide")
    assert "--shape must be left out unless --output ends with .csv, got wide" in line_of(wrong)
    assert wrong.exit_code == 2


def test_no_format_loses_a_row_of_a_large_release(many: Path, tmp_path: Path) -> None:
    keys = [(tick, f"d{number:03d}") for tick in range(1, TICKS + 1) for number in range(DISTRICTS)]
    assert len(keys) > 10_000
    for name in ("wide.csv", "rows.json", "rows.jsonl", "rows.parquet"):
        found = invoke("export", many, "--output", tmp_path / name, "--release", "districts")
        assert found.stderr.endswith(f"has {TICKS} ticks of districts\n")
    invoke("export", many, "--output", tmp_path / "long.csv", "--release", "districts", "--shape", "long")
    assert [(int(row["tick"]), row["district"]) for row in read(tmp_path / "wide.csv")] == keys
    long = [(int(row["tick"]), json.loads(row["group"])["district"]) for row in read(tmp_path / "long.csv")]
    assert long == keys
    objects = json.loads((tmp_path / "rows.json").read_text())
    assert [(row["tick"], row["group"]["district"]) for row in objects] == keys
    assert [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()] == objects
    rows = duckdb.connect().sql(f"SELECT tick, \"group\" FROM '{tmp_path}/rows.parquet'").fetchall()
    assert [(tick, json.loads(group)["district"]) for tick, group in rows] == keys


def test_screen_and_plot_show_number_of_omitted_groups(many: Path, tmp_path: Path) -> None:
    shown = invoke("releases", many, "districts").stdout
    rows = sum(line.startswith("d") and line[1:4].isdigit() for line in shown.splitlines())
    assert f"and {DISTRICTS - rows} more groups: streamgauge export has all" in shown
    assert "trends over 48 ticks" in shown
    assert "sorted by count, largest first" in shown
    assert invoke("plot", many, "--output", tmp_path / "plot.html", "--release", "districts").exit_code == 0
    assert f"The 12 largest of {DISTRICTS} groups, by the last tick." in (tmp_path / "plot.html").read_text()


def test_trends_of_long_periods_have_as_many_rows(tmp_path: Path) -> None:
    file = clinic(tmp_path)
    by_period = '[[release]]\nname = "periods"\nsql = "SELECT COUNT(*) FROM visits"\nwindow = "tumbling 6h"\n'
    file.write_text(f"{TOML}\n{by_period}epsilon = 0.25\n")
    assert invoke("run", file).exit_code == 0
    assert "trends over 5 periods" in invoke("releases", file, "periods", "--last", 5).stdout
    assert f"trends over {TICKS // 6} periods" in invoke("releases", file, "periods").stdout
