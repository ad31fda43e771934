"""`streamgauge intrude`: an intrusion into a stopped run on standard input, and the rehearsal."""

import json
import sys
import time
from datetime import UTC, datetime
from types import SimpleNamespace

import numpy as np
import pytest

from streamgauge.cli import intrude, quarantine
from streamgauge.store.lock import Lock
from tests.support.clinics import clinic, invoke, line_of, started

TOML = """
[stream]
name = "visits"
source = "-"
format = "jsonl"
mode = "streaming"
time = "ts"
time_format = "epoch s"
tick = "1h"
start = "{start}"
end = "{end}"
unit = {{ user = "patient" }}
budget = {{ epsilon = 8 }}
key = "file:clinic.key"
pan_private = true
reserved_intrusions = 1

[stream.columns]
patient = {{ hash_cells = 64 }}

[[release]]
name = "patients"
sql = "SELECT COUNT(DISTINCT patient) FROM visits"
epsilon = 8
"""


def spelled(seconds):
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A clinic that has read its first visits from standard input, in a process of its own."""
    now = int(time.time())
    toml = TOML.format(start=spelled(now), end=spelled(now + 7 * 3600))
    file = clinic(tmp_path_factory.mktemp("intruded"), toml, [])
    visits = "".join(json.dumps({"ts": now, "patient": f"p{i}"}) + "\n" for i in range(40))
    with started("run", file, stdin=-1) as run:
        said = run.communicate(visits)
        assert run.returncode == 0, said
    return file


def test_invalid_intrusion_is_refused_in_one_line(ran, tmp_path):
    def refusal(*words):
        return line_of(invoke("intrude", *words))

    assert "FILE must be a pipeline file, unless it is a rehearsal" in refusal()
    assert "--output must be a new folder, unless it is a rehearsal" in refusal(ran)
    assert "--yes must be given if standard input is not a terminal" in refusal(ran, "--output", tmp_path / "over")
    assert "export must go to a new folder" in refusal(ran, "--output", tmp_path, "--yes")
    other = clinic(tmp_path / "other")
    assert "pan_private must be true to survive an intrusion" in refusal(other, "--output", tmp_path / "over", "--yes")
    with Lock(ran.with_suffix(".streamgauge")):
        said = refusal(ran, "--output", tmp_path / "over")
        assert "stop that run or server (Ctrl-C) and intrude again; or ask the server" in said
        assert 'POST /api/intrusions {"folder": "over"}' in said
        assert f"exports to {ran.with_suffix('.intrusions') / 'over'} and continues" in said
    assert not (tmp_path / "over").exists()


def test_unconfirmed_intrusion_exports_nothing(ran, tmp_path, monkeypatch):
    monkeypatch.setattr(intrude, "sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True), stdout=sys.stdout))
    found = invoke("intrude", ran, "--output", tmp_path / "over")
    assert found.exit_code == 130
    assert "0 announced intrusions so far, 1 left of those reserved. One more cannot be undone" in found.stderr
    assert not list(tmp_path.iterdir())


def test_intrusion_is_in_ledger_and_plan_and_second_is_refused(ran, tmp_path):
    found = invoke("intrude", ran, "--output", tmp_path / "over", "--yes", "--json")
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout) == {
        "intrusion": 1,
        "tick": 0,
        "folder": str(tmp_path / "over"),
        "releases": ["patients"],
    }
    bits = np.load(tmp_path / "over" / "patients.0.entries.npy")
    assert (bits.shape, set(bits.tolist()) <= {0, 1}) == ((64,), True)
    assert "at most the 1 that the claim reserves" in line_of(
        invoke("intrude", ran, "--output", tmp_path / "more", "--yes")
    )
    ledger = invoke("ledger", ran).stdout
    assert "1 announced intrusion so far, 0 left of those reserved" in ledger
    assert "intrusion" in ledger.splitlines()[-1]
    assert "patients, after tick 0" in ledger.splitlines()[-1]
    assert json.loads(invoke("ledger", ran, "--json").stdout)["intrusions"] == {"total": 1, "remaining": 0}
    plan = invoke("plan", ran).stdout
    assert "1 announced intrusion so far, 0 left" in plan
    assert "errors of patients grow with announced intrusions: x " in plan
    assert json.loads(invoke("plan", ran, "--json").stdout)["intrusions"] == {"total": 1, "remaining": 0}


def test_quarantine_of_private_pipeline_says_nothing_is_counted(ran, monkeypatch):
    monkeypatch.setattr(quarantine, "sys", SimpleNamespace(stderr=SimpleNamespace(isatty=lambda: True)))
    found = invoke("quarantine", ran)
    assert (found.exit_code, found.stdout) == (0, "")
    assert found.stderr.strip() == "with pan_private = true neither records nor those that were dropped are counted"


def test_rehearsal_needs_no_file_and_respects_bound(monkeypatch):
    monkeypatch.setattr(intrude, "REHEARSAL_COUNT", 60)
    shown = invoke("intrude", "--rehearse")
    assert shown.exit_code == 0, shown.output
    for words in ("One visit in a running count", "One patient of 300", "e^1 = 2.718", "two secret looks"):
        assert words in shown.stdout
    found = json.loads(invoke("intrude", "--rehearse", "--json").stdout)
    for kind in ("counter", "table"):
        assert len(found[kind]["chance"]) == 60
        assert found[kind]["worst_odds"] <= found["bounds"]["odds"][1]


def test_rehearsal_refuses_missing_file_and_output_option(ran, tmp_path, monkeypatch):
    monkeypatch.setattr(intrude, "REHEARSAL_COUNT", 2)
    assert invoke("intrude", ran, "--rehearse").exit_code == 0
    assert "no.toml" in line_of(invoke("intrude", tmp_path / "no.toml", "--rehearse"))
    assert "--output must be left out of a rehearsal" in line_of(invoke("intrude", "--rehearse", "--output", tmp_path))
