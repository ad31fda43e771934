"""After any accepted rollbacks, a sink has the values of its store, each tick once.

Two histories, A and B, share three ticks. B's store ran last and wrote the sink; then A's store is restored.
"""

import json
import os

import duckdb
import pytest

from streamgauge.sinks import LineFile, ParquetParts, SinkError
from streamgauge.store.errors import RollbackError
from tests.runtime.test_rollback import EPSILON, SALE, Curator
from tests.support.codes import has_code
from tests.support.crash_readers import in_memory
from tests.support.pipelines import TICKS, pipeline, tables

SHARED, A = 3, 8
SINKS = ["out.jsonl", "out.csv", "out.parquet"]
tmp_path = pytest.fixture(in_memory, name="tmp_path")
every_sink = pytest.mark.parametrize("sink", SINKS)
every_length = pytest.mark.parametrize("b", [6, TICKS], ids="B ran to {}".format)
MOMENTS = [
    ("transaction_committed", 1),
    ("guard_written", 1),
    ("sink_written", 1),
    ("sink_written", 5),
    ("sink_position_saved", 5),
    ("store_committed", 2),
]


class Published(Curator):
    """A curator with a sink."""

    sink = "out.jsonl"

    @property
    def pipeline(self):
        releases = [{"name": name, "sql": SALE, "epsilon": str(EPSILON)} for name in self.names]
        return pipeline(self.folder, tables(*releases, sinks=[{"to": self.sink}], **self.settings))

    def in_sink(self):
        path = self.folder / self.sink
        if path.suffix == ".jsonl":
            rows = map(json.loads, path.read_text().splitlines())
            return sorted((row["tick"], str(row["group"]), row["sum_x"]["value"]) for row in rows)
        if path.suffix == ".csv":
            rows = duckdb.connect().sql(f"SELECT tick, g, sum_x FROM read_csv('{path}')").fetchall()
            return sorted((tick, str({"g": group}), value) for tick, group, value in rows)
        read = f"'{path}/*.parquet'"
        rows = duckdb.connect().sql(f'SELECT tick, "group", value FROM {read}').fetchall()
        return sorted((tick, str(json.loads(group)), value) for tick, group, value in rows)

    def in_store(self):
        return sorted(
            (each.tick, str(json.loads(group)), value)
            for name in self.names
            for each in self.pipeline.releases(name)
            for group, value in zip(each.shape.group_texts, each.value[0].tolist(), strict=True)
        )


def diverged(folder, sink, b):
    """Restore the store of A in place of B's, which ran to tick `b`."""
    curator = Published(folder)
    curator.sink = sink
    curator.run(SHARED)
    curator.copy()
    curator.run(A - SHARED)
    curator.copy()
    curator.put_back(0)
    curator.run(b - SHARED)
    curator.put_back(1)
    return curator


@pytest.mark.one_of_each
@every_sink
@every_length
def test_sink_of_another_history_is_rewritten_after_accepted_rollback(tmp_path, sink, b):
    curator = diverged(tmp_path, sink, b)
    with pytest.raises(RollbackError, check=has_code("rollback")):
        curator.run(accept_rollback=False)
    curator.run()
    assert curator.in_sink() == curator.in_store()
    assert len(curator.in_sink()) == 2 * TICKS
    assert curator.overdrawn() == []
    curator.run(accept_rollback=False)


@every_sink
def test_twin_that_ignores_sink_content_mixes_histories(tmp_path, monkeypatch, sink):
    for kind in (LineFile, ParquetParts):
        monkeypatch.setattr(kind, "diverged", lambda self, knows: None)
    curator = diverged(tmp_path, sink, TICKS)
    curator.run()
    try:
        assert curator.in_sink() != curator.in_store()
    except (ValueError, duckdb.Error):
        assert sink != "out.parquet"  # a line may be truncated


@every_sink
def test_missing_sink_is_written_again(tmp_path, sink):
    """B's curator moved the sink away; the rollback guard shows that A was restored."""
    curator = diverged(tmp_path, sink, TICKS)
    (tmp_path / sink).rename(tmp_path / "elsewhere")
    curator.run()
    assert curator.in_sink() == curator.in_store()


class Killed(BaseException):
    """A simulated kill signal."""


def killed_at(step, number):
    left = iter(range(number - 1))

    def reached(now):
        if now == step and next(left, None) is None:
            raise Killed

    return reached


@pytest.mark.one_of_each("step")
@pytest.mark.parametrize("sink", ["out.jsonl", "out.parquet"])
@pytest.mark.parametrize(("step", "number"), MOMENTS)
def test_crash_during_rewrite_of_sink_costs_nothing(tmp_path, sink, step, number):
    curator = diverged(tmp_path, sink, 6)
    with pytest.raises(Killed):
        curator.run(step=killed_at(step, number))
    paid = curator.spent(1)
    curator.run(accept_rollback=False)
    assert curator.in_sink() == curator.in_store()
    assert curator.spent(1) == paid
    curator.put_back(0)
    with pytest.raises(RollbackError, check=has_code("rollback")):
        curator.run(accept_rollback=False)


def forget_guard(monkeypatch):
    """Let the rollback guard know no history."""
    monkeypatch.setattr("streamgauge.store.rollback_guard.RollbackGuard.traces", lambda self: [])


@pytest.mark.parametrize("sink", ["out.jsonl", "out.parquet"])
@pytest.mark.parametrize("number", [1, 4])
def test_partly_rewritten_sink_still_detects_rollback(tmp_path, monkeypatch, sink, number):
    """The sink refuses an older copy, even if nothing else shows the rollback."""
    curator = diverged(tmp_path, sink, 6)
    with pytest.raises(Killed):
        curator.run(step=killed_at("sink_written", number))
    curator.put_back(0)
    forget_guard(monkeypatch)
    with pytest.raises(RollbackError, check=has_code("rollback")):
        curator.run(accept_rollback=False)


@every_sink
def test_shorter_sink_of_another_history_is_refused_as_rollback(tmp_path, monkeypatch, sink):
    """Without the rollback guard, only the trace in the sink shows the rollback."""
    curator = diverged(tmp_path, sink, 6)
    forget_guard(monkeypatch)
    with pytest.raises(RollbackError, check=has_code("rollback")):
        curator.run(accept_rollback=False)


@every_sink
def test_truncated_sink_is_refused_before_any_charge(tmp_path, sink):
    curator = Published(tmp_path)
    curator.sink = sink
    curator.run(SHARED)
    before = curator.pipeline.ledger().ledger_entries
    path = tmp_path / sink
    (path / "part-00000003.parquet").unlink() if path.is_dir() else os.truncate(path, path.stat().st_size // 2)
    for said in (True, False):
        with pytest.raises(SinkError, match=f"sink {sink} must have the .* that were written to it, got"):
            curator.run(accept_rollback=said)
    assert curator.pipeline.ledger().ledger_entries == before
    curator.sink = f"other.{sink}"
    curator.run(accept_rollback=False)
    assert curator.in_sink() == curator.in_store()
