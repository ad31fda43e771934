"""The demo of the local model: the same crowd every time, private reports, estimates next to the truth."""

import re
from pathlib import Path

import numpy as np
import pytest

from streamgauge.cli.demo.poll import EMOJI_NAMES, build_sketch, compute_shares, draw_favourites
from streamgauge.cli.demo.poll_live import CrowdTruth, write_poll
from streamgauge.config.pipeline_file import read_pipeline
from tests.support.clinics import invoke

SECOND = 10**6
START = 1_800_000_000 * SECOND


def test_crowd_is_reproducible_and_its_favourites_change():
    assert (draw_favourites(3, 500) == draw_favourites(3, 500)).all()
    assert set(draw_favourites(3, 5000)) == set(range(len(EMOJI_NAMES)))
    over_time = np.array([compute_shares(tick) for tick in range(150)])
    np.testing.assert_allclose(over_time.sum(1), 1)
    assert (over_time.max(0) > 1.5 * over_time.min(0)).all()


ROW = r"^(\S+) +(\w+) +([0-9,]+) +(-?[0-9,]+) +-?[0-9,]+ +([0-9,]+) to ([0-9,]+) +(yes|no)$"


def printed(text):
    """Return the printed rows: emoji, name, truth, estimate, interval ends, and the coverage mark."""
    rows = re.findall(ROW, text, re.M)
    return [(*row[:2], *(int(each.replace(",", "")) for each in row[2:6]), row[6]) for row in rows]


def test_printed_interval_agrees_with_its_coverage_mark():
    """The interval is cut at zero and compared as printed, to the last digit."""
    runs = [printed(invoke("demo", "--local", "--events", 1000).stdout) for _ in range(5)]
    assert {len(rows) for rows in runs} == {len(EMOJI_NAMES)}
    assert any(low == 0 for rows in runs for *_, low, _, _ in rows)
    for *_, truth, _, low, high, said in (row for rows in runs for row in rows):
        assert (low <= truth <= high) == (said == "yes")


def test_local_demo_shows_estimates_with_truth_and_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = invoke("demo", "--local", "--events", 20_000)
    assert found.exit_code == 0, found.stderr
    rows = printed(found.stdout)
    assert {item: name for item, name, *_ in rows} == EMOJI_NAMES
    truth, estimate, low, high = np.array([row[2:6] for row in rows]).T
    assert truth.sum() == 20_000
    assert (np.abs(truth - estimate) < 2 * (high - low).max()).all()  # eight standard errors
    assert re.search(r"[0-9]+ of 12 intervals contain the truth", found.stdout)
    assert list(tmp_path.iterdir()) == []


def test_poll_file_declares_reports_that_crowd_sends(tmp_path):
    file = read_pipeline(write_poll(tmp_path, START, 7))
    assert (file.stream.ticks, file.stream.allow_reports_from) == (7, "anyone")
    column = file.stream.reports["emoji"]
    assert column.mechanism == build_sketch()
    assert (column.values, column.on_repeat, column.user_loss) == (tuple(EMOJI_NAMES), "repeat", build_sketch().loss)


def test_truth_covers_window_and_is_unknown_for_open_tick(tmp_path):
    file = read_pipeline(write_poll(tmp_path, START, None))
    truth = CrowdTruth(file, lambda: START + 71 * SECOND)
    for tick in (1, 3, 71):
        truth.add_favourites(tick, np.array([0, 0, 2]))
    running, minute = (
        np.array(truth.columns(name, 1, 72)["measures"]["count"]["value"], float)
        for name in ("favourites", "favourites_now")
    )
    assert running[[0, 1, 2, 70], 0].tolist() == [2, 2, 4, 6]
    assert minute[[0, 1, 2, 61, 70], 2].tolist() == [1, 1, 2, 1, 1]
    assert np.isnan(running[71]).all()
    assert truth.columns("another", 1, 2) is None


def test_live_poll_ends_by_itself_and_foreign_folder_is_refused(tmp_path):
    folder = tmp_path / "demo"
    ended = invoke("demo", "--local", "--live", "--ticks", 1, "--port", 0, "--folder", folder)
    assert ended.exit_code == 0, ended.stderr
    assert re.search(r"live at http://127\.0\.0\.1:[0-9]+/emoji", ended.stdout)
    assert (folder / "emoji.streamgauge").is_dir()
    again = invoke("demo", "--local", "--live", "--events", 5000, "--folder", folder)
    assert "--events must be given without --live, got 5000" in again.stderr
    (folder / "emoji.toml").write_text("mine")
    refused = invoke("demo", "--live", "--ticks", 1, "--folder", folder)
    assert "--folder must be an empty folder, or one of an earlier demo" in refused.stderr


@pytest.mark.parametrize("options", [("--ticks", 2), ("--local", "--ticks", 2)])
def test_ticks_option_without_live_is_refused(options):
    assert "--ticks must be given with --live, got 2" in invoke("demo", *options).stderr


def test_commands_at_start_of_readme_exist():
    root = Path(__file__).parents[2]
    begin = root.joinpath("README.md").read_text().partition("## Start in one minute")[2].partition("## ")[0]
    named = set(re.findall(r"^make (\w+)", begin, re.M))
    assert named >= {"demo", "live", "emoji", "test"}
    assert named <= set(re.findall(r"^(\w+):", root.joinpath("Makefile").read_text(), re.M))
