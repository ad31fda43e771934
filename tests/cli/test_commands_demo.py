"""The demo: the same clinic every time, shown next to its truth, in a folder of its own."""

import json
import re

import pytest

from streamgauge.cli.demo.clinic import DAYS, TORN_RECORDS, compare_truth, generate_lines, write_clinic
from streamgauge.runtime.pipeline import Pipeline
from streamgauge.store.keys import create_key
from streamgauge.testing.noise import SilentNoise
from tests.support.clinics import invoke


def test_the_synthetic_clinic_is_the_same_every_time():
    assert list(generate_lines(2000)) == list(generate_lines(2000))


def test_synthetic_clinic_has_wave_per_region_and_torn_records():
    torn, visits = 0, []
    for line in generate_lines(20_000):
        try:
            visits.append(json.loads(line))
        except ValueError:
            torn += 1
    assert torn == TORN_RECORDS
    assert [visit["ts"] for visit in visits] == sorted(visit["ts"] for visit in visits)
    assert visits[0]["ts"] >= "2026-01-05"
    assert visits[-1]["ts"] < "2026-04-05"
    fevers = [visit for visit in visits if visit["temperature"] > 38]
    for region in ("north", "south", "east", "west"):
        months = [visit["ts"][5:7] for visit in fevers if visit["region"] == region]
        assert months.count("02") > months.count("01")
        assert months.count("02") > months.count("03")


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "clinic"
    found = invoke("demo", "--folder", folder, "--events", 5000)
    assert found.exit_code == 0, found.stderr
    return folder, found.stdout


def test_demo_plans_runs_and_shows_releases_with_truth(shown):
    _, text = shown
    for word in ("fever_by_region", "fever_this_week", "median_temperature", "truth", "released", "± 95 %", "inside"):
        assert word in text
    assert re.search(r"[0-9.]+% of [0-9,]+ intervals contain the truth", text)


def test_releases_without_noise_equal_truth(tmp_path):
    """The plain SQL of the demo and the pipeline answer the same query, at every tick and for every group."""
    write_clinic(tmp_path, 5000)
    create_key(tmp_path / "clinic.key")
    pipeline = Pipeline.from_file(tmp_path / "clinic.toml")
    pipeline.run(noise=SilentNoise())
    published = {release.name: pipeline.releases(release.name) for release in pipeline.file.releases}
    found = compare_truth(tmp_path / "visits.jsonl", published)
    assert {(extension.releases.release, extension.measure) for extension in found} == {
        (name, measure) for name, releases in published.items() for measure in releases.shape.measures
    }
    for extension in found:
        errors = (extension.releases.values(extension.measure) - extension.truth)[extension.has_truth]
        assert len(errors) > 300
        if extension.measure == "count":
            assert not errors.any()
        assert extension.is_covered[extension.has_truth].all()


def test_demo_writes_files_to_printed_paths(shown):
    folder, text = shown
    for name in ("clinic.toml", "releases.jsonl", "plot.html", "plot.png", "clinic.streamgauge"):
        assert (folder / name).exists()
        assert str(folder / name) in text
    assert len((folder / "visits.jsonl").read_text().splitlines()) == 5000
    assert len({json.loads(line)["tick"] for line in (folder / "releases.jsonl").read_text().splitlines()}) == 4 * DAYS


def test_repeated_demo_replaces_only_its_own_files(shown):
    folder, _ = shown
    (folder / "notes.txt").write_text("mine")
    assert invoke("demo", "--folder", folder, "--events", 2000).exit_code == 0
    assert (folder / "notes.txt").read_text() == "mine"
    assert len((folder / "visits.jsonl").read_text().splitlines()) == 2000
