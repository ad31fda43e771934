"""States of charges in the printed ledger."""

from pathlib import Path

from tests.support import edited
from tests.support.clinics import invoke
from tests.support.edited import live_until
from tests.support.pipelines import COUNTS, tables

folder, once, ran = edited.folder, edited.once, edited.ran

FILE = """[stream]
name = "v"
source = "v.jsonl"
mode = "{mode}"
time = "ts"
time_format = "epoch s"
tick = "10s"
start = "2026-01-05T00:00:00Z"
unit = "event"
budget = {{ epsilon = 1 }}
columns = {{ g = {{ values = ["a", "b"] }}, x = {{ bounds = [0, 10], grid = 1 }} }}
{more}

[[release]]
name = "counts"
sql = "SELECT g, COUNT(*) FROM v GROUP BY g"
epsilon = 0.5
"""


def print_ledger(folder: Path, mode: str, more: str = "") -> str:
    (folder / "v.toml").write_text(FILE.format(mode=mode, more=more))
    return invoke("ledger", folder / "v.toml").stdout


def test_release_with_its_last_tick_is_finished(ran: Path) -> None:
    text = print_ledger(ran, "batch", 'end = "2026-01-05T00:01:40Z"')
    assert "finished" in text
    assert "open" not in text


def test_running_and_ended_releases_are_not_finished(tmp_path: Path) -> None:
    live_until(tmp_path, tables(live=True), 52)
    assert "open" in print_ledger(tmp_path, "streaming")
    live_until(tmp_path, tables({"name": "other", "sql": COUNTS, "epsilon": "1/4"}, live=True), 60, at=52)
    text = print_ledger(tmp_path, "streaming")
    assert "ended after tick 4" in text
    assert "finished" not in text
