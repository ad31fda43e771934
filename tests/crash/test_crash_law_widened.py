"""The crash law for a sink that gets more releases than before: each missed value is written to it once."""

import shutil

import pytest

from streamgauge.runtime.publisher import SinkCursor
from tests.support.crash_readers import Watched
from tests.support.pipelines import COUNTS, lines, one_a_second, pipeline, run, tables, write

DEATHS = [
    ("sink_written", 1),
    ("sink_position_saved", 1),
    ("sink_written", 2),
    ("sink_position_saved", 3),
    ("sink_position_saved", 14),
]


@pytest.fixture(params=[5, None], ids=["after five ticks", "after all"])
def widened(request):
    """A run whose sinks had one release each, and get both from now on."""
    with Watched("brief narrow", noisy=True) as watched:
        if request.param:
            watched.child(at=["sink_position_saved", 2 * request.param, "kill"])
        else:
            watched.finish()
            watched.whole()
        watched.kind = "brief wide"
        yield watched


@pytest.mark.one_of_each
def test_widened_sink_gets_missed_values_once_despite_crashes(widened):
    for step, time in DEATHS:
        assert widened.child(at=[step, time, "kill"]).killed
    widened.finish()
    widened.whole()
    before = [widened.published(sink) for sink in widened.sinks]
    widened.finish()
    assert [widened.published(sink) for sink in widened.sinks] == before


@pytest.mark.one_of_each
def test_sink_narrowed_and_widened_again_has_each_value_once(widened):
    widened.child(at=["sink_position_saved", 3, "kill"])
    for kind in ("brief narrow", "brief wide", "brief narrow", "brief wide"):
        widened.kind = kind
        widened.child(at=["sink_position_saved", 2, "kill"])
    widened.finish()
    widened.whole()


def test_sink_that_misses_ticks_of_one_release_detects_rollback():
    """The run dies while it adds a release tick by tick; then the store is rolled back to tick 7."""
    with Watched("brief narrow", noisy=True) as watched:
        watched.child(at=["sink_position_saved", 14, "kill"])
        shutil.copytree(watched.folder / "c.streamgauge", watched.folder / "old")
        watched.finish()
        watched.kind = "brief wide"
        assert watched.child(at=["sink_position_saved", 2, "kill"]).killed
        shutil.rmtree(watched.folder / "c.streamgauge")
        (watched.folder / "old").rename(watched.folder / "c.streamgauge")
        (watched.folder / "c.key.guard").unlink()
        assert watched.child().error.startswith("RollbackError: store must know all that was published, got 7 ")


def test_twin_with_one_cursor_for_all_releases_is_caught(monkeypatch, tmp_path):
    write(tmp_path, one_a_second())
    both = ({"name": "one", "sql": COUNTS}, {"name": "two", "sql": COUNTS})

    def published(name, **sink):
        run(pipeline(tmp_path, tables(*both, sinks=[{"to": f"{name}.jsonl", **sink}])))
        return {line["release"] for line in lines(tmp_path / f"{name}.jsonl")}

    assert published("good", releases=["one"]) == {"one"}
    assert published("good") == {"one", "two"}

    def of_all(self, release, number):
        return self.wants(release) and max(self.written_commits.values(), default=0) < number

    monkeypatch.setattr(SinkCursor, "misses", of_all)
    assert published("twin", releases=["one"]) == {"one"}
    assert published("twin") == {"one"}


def test_stamps_never_decrease_although_older_ticks_come_later(tmp_path):
    write(tmp_path, one_a_second())
    both = ({"name": "one", "sql": COUNTS}, {"name": "two", "sql": COUNTS})
    run(pipeline(tmp_path, tables(*both, sinks=[{"to": "out.jsonl", "releases": ["one"]}])), max_batch_ticks=1)
    run(pipeline(tmp_path, tables(*both, sinks=[{"to": "out.jsonl"}])))
    stamps = [int(line["trace"].split(":")[0]) for line in lines(tmp_path / "out.jsonl")]
    assert stamps == sorted(stamps)
    ticks = [line["tick"] for line in lines(tmp_path / "out.jsonl")]
    assert ticks != sorted(ticks)
