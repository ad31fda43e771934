"""Ambiguous column names are refused before anything is charged."""

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
def test_column_name_of_existing_field_is_refused_before_store_exists(tmp_path, sql):
    write(tmp_path, one_a_second())
    made = pipeline(tmp_path, tables({"name": "r", "sql": sql}))
    assert any("rename one with AS" in reason for reason in made.plan().refusals)
    with pytest.raises(InvalidReleaseError, match="rename one with AS"):
        run(made)
    assert not (tmp_path / "v.streamgauge").exists()


def test_closed_standard_input_is_refused_before_charge(tmp_path):
    made = pipeline(tmp_path, tables(source="-", mode="batch", format="jsonl"))
    with pytest.raises(RunRefusedError, match="standard input must be open"):
        run(made, standard_input=987)
    assert not (tmp_path / "v.streamgauge").exists()
