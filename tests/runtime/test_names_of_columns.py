"""Columns that readers could not tell apart are refused before anything is charged."""

import pytest

from streamgauge.config.errors import InvalidReleaseError
from streamgauge.runtime.session import RunRefusedError
from tests.support.pipelines import one_a_second, pipeline, run, tables, write


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) AS tick FROM v",
        "SELECT COUNT(*) AS release FROM v",
        "SELECT COUNT(*) AS trace FROM v",
        "SELECT COUNT(*) AS n, SUM(x) AS n_low FROM v",
        "SELECT g AS start, COUNT(*) FROM v GROUP BY g",
        'SELECT g AS "level", x > 5 AS high, COUNT(*) FROM v GROUP BY ROLLUP ("level", high)',
    ],
)
def test_a_name_that_rows_have_already_is_refused_and_nothing_is_written(tmp_path, sql):
    write(tmp_path, one_a_second())
    made = pipeline(tmp_path, tables({"name": "r", "sql": sql}))
    assert any("rename one with AS" in reason for reason in made.plan().refusals)
    with pytest.raises(InvalidReleaseError, match="rename one with AS"):
        run(made)
    assert not (tmp_path / "v.streamgauge").exists()


def test_a_standard_input_that_is_closed_is_refused_before_a_charge(tmp_path):
    made = pipeline(tmp_path, tables(source="-", mode="batch", format="jsonl"))
    with pytest.raises(RunRefusedError, match="standard input must be open"):
        run(made, standard_input=987)
    assert not (tmp_path / "v.streamgauge").exists()
