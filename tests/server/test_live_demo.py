"""The live demo: the same visits in every run, sent over HTTP, next to their true counts."""

import os
import subprocess
import sys
from itertools import pairwise

import pytest

from streamgauge.cli.demo.clinic_live import TruthQuery, generate_visits, generate_visits_between, write_live_clinic
from streamgauge.cli.demo.live import TICK_MICROSECONDS
from streamgauge.config.pipeline_file import read_pipeline
from streamgauge.releases.release import Group, ReleaseSchema

START = 1_800_000_000 * TICK_MICROSECONDS


def test_visits_do_not_depend_on_partition_of_time():
    whole = generate_visits_between(START, START, START + 5 * TICK_MICROSECONDS)
    cuts = [
        START,
        START + 1,
        START + 1_700_000,
        START + 2 * TICK_MICROSECONDS,
        START + 4_999_999,
        START + 5 * TICK_MICROSECONDS,
    ]
    assert [visit for pair in pairwise(cuts) for visit in generate_visits_between(START, *pair)] == whole
    assert all(START <= visit.time < START + 5 * TICK_MICROSECONDS for visit in whole)


def test_fever_wave_moves_through_the_regions():
    fevers = {region: [] for region in ("north", "south", "east", "west")}
    for second in range(0, 150, 5):
        for region, found in fevers.items():
            found.append(
                sum(visit.temperature > 38 for visit in generate_visits(START, second) if visit.region == region)
            )
    peaks = [found.index(max(found)) for found in fevers.values()]
    assert peaks[0] < peaks[1] < peaks[2]


def test_pipeline_file_of_demo_can_be_served(tmp_path):
    file = read_pipeline(write_live_clinic(tmp_path, START, 7))
    assert (file.stream.ticks, file.stream.source, file.server.anonymous) == (7, "http", True)
    assert read_pipeline(write_live_clinic(tmp_path, START, None)).stream.ticks is None


@pytest.mark.parametrize(
    ("window", "begins"),
    [
        ("running", 3),
        ("each", 9),
        ("sliding 4", 6),
        ("sliding 40", 3),
        ("decayed 5", None),
        (["sliding 2", "sliding 4"], None),
        ("decayed polynomial 1.5", None),
    ],
)
def test_truth_covers_window_from_first_tick_of_release(window, begins):
    requested = TruthQuery("", window, 3, ReleaseSchema("r", ("count",), (Group(0, ()),)), ("count",))
    assert requested.find_first_tick(9) == begins


@pytest.mark.slow
def test_live_demo_prints_address_ends_and_leaves_a_store(tmp_path):
    command = [sys.executable, "-m", "streamgauge", "demo", "--live", "--folder", str(tmp_path / "demo")]
    ended = subprocess.run(
        [*command, "--port", "0", "--ticks", "2"],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "live at http://127.0.0.1:" in ended.stdout
    assert "sg_analyst_" in ended.stdout
    last = ended.stdout.replace("\n", " ").rstrip()
    assert last.endswith(f"The clinic is closed: its file, releases and ledger are in {tmp_path / 'demo'}")
    assert (tmp_path / "demo" / "clinic.streamgauge").is_dir()
    assert not list((tmp_path / "demo").glob("visits*"))


def test_ticks_option_requires_live_demo():
    command = [sys.executable, "-m", "streamgauge", "demo", "--ticks", "2"]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert refused.returncode == 2
    assert "--ticks must be given with --live, got 2" in refused.stderr
