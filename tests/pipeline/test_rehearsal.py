"""What follows from declarations alone is worked out beside the scan, and changes nothing."""

from pathlib import Path
from typing import Any

import pytest
from pipelines import one_a_second, pipeline, run, tables, write

from streamgauge.noise import table
from streamgauge.pipeline import rehearsal
from streamgauge.pipeline.rehearsal import rehearsed
from streamgauge.query.planner import planned

SQL = "SELECT g, COUNT(*), AVG(x), MEDIAN(x) FROM v GROUP BY g"


def made(folder: Path) -> Any:
    write(folder, one_a_second())
    return pipeline(folder, tables({"name": "all", "sql": SQL, "window": "running"}))


def test_a_rehearsal_works_out_every_table_of_noise_that_a_run_asks_for(tmp_path: Path) -> None:
    clinic = made(tmp_path)
    for part in planned(clinic.file, clinic.file.releases[0]).parts:
        rehearsed(part, 10)
    before = table.table.cache_info().misses
    clinic.run()
    assert table.table.cache_info().misses == before


def test_a_rehearsed_run_publishes_what_any_other_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even with a rehearsal that fails."""
    published, tried = [], []

    def fails(part: Any, ticks: int) -> None:
        tried.append(ticks)
        raise ValueError("a rehearsal that fails")

    for name, large, rehearse in (("a", 2**26, rehearsed), ("b", 0, rehearsed), ("c", 0, fails)):
        monkeypatch.setattr(rehearsal, "LARGE", large)
        monkeypatch.setattr(rehearsal, "rehearsed", rehearse)
        (tmp_path / name).mkdir()
        clinic = made(tmp_path / name)
        run(clinic)
        published.append([released.pack() for released in clinic.releases("all")])
    assert published[0] == published[1] == published[2]
    assert set(tried) == {10}
