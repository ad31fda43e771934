"""`streamgauge audit` reports as table, JSON and page; its exit code is the verdict."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer

import streamgauge as sg
from streamgauge.audit.catalogue import CatalogueEntry, list_entries, list_twins
from streamgauge.audit.exact.worst_case import WorstCase
from streamgauge.audit.report import AuditReport, audit_entries, build_report
from streamgauge.audit.verdict import Verdict
from streamgauge.cli import audit as command
from streamgauge.cli.errors import EXIT_CLAIM_BROKEN, EXIT_STOPPED
from streamgauge.cli.views.audit import AuditProgress
from streamgauge.config.pipeline_file import read_pipeline
from tests.support.clinics import TOML, clinic, line_of, told

ONE = TOML.replace("epsilon = 0.5", "epsilon = 0.75", 1).partition("[[release]]")[0] + (
    '[[release]]\nname = "visits"\nsql = "SELECT COUNT(*) FROM visits"\nwindow = "each"\nepsilon = 1\n'
)


SURE = ("--confidence", 1 - 1e-9)


def test_a_mechanism_is_attacked_by_name() -> None:
    found = told("audit", "simpleii", "--epsilon", "1/2", "--ticks", "3", "--runs", "4000", *SURE)
    assert found.exit_code == 0, found.output
    head, *rows = [line for line in found.stdout.splitlines() if line.strip()][1:]
    assert head.split() == ["subject", "claim", "exact", "measured", "ratio", "score", "runs", "verdict"]
    assert rows[0].startswith("SimpleII")
    assert "epsilon 0.5" in rows[0]
    assert "  holds" in rows[0]
    assert " claims hold, 0 condemned" in rows[-1]


@pytest.mark.slow
def test_other_units_and_losses_can_be_requested() -> None:
    found = told("audit", "Kary", "--rho", "0.5", "--unit", "w_event:2", "--runs", "500", "--json", *SURE)
    assert found.exit_code == 0, found.output
    report = json.loads(found.stdout)
    assert {each["currency"] for each in report["findings"]} == {"zCDP"}
    assert all("WEvent(w=2" in each["subject"] for each in report["findings"])


@pytest.mark.slow
def test_unit_with_too_many_patterns_to_list_is_audited() -> None:
    words = ("--epsilon", "1", "--unit", "user:1,20", "--ticks", "40", "--runs", "200", *SURE)
    found = told("audit", "Binary", *words)
    assert found.exit_code == 0, found.output
    assert "claims hold, 0 condemned" in found.stdout


def test_a_claim_with_a_delta_is_attacked_as_stated() -> None:
    words = ("--epsilon", "1", "--delta", "0.01", "--ticks", "2", "--runs", "500", "--json", *SURE)
    findings = json.loads(told("audit", "SimpleII", *words).stdout)["findings"]
    counters = [each for each in findings if each["kind"] == "counter"]
    assert [each["currency"] for each in counters] == ["approximate", "zCDP"]
    assert counters[0]["exact_bounds"][1] < 1


def test_audit_of_a_pipeline_file_changes_no_file(tmp_path: Path) -> None:
    file = clinic(tmp_path, ONE)
    (tmp_path / "clinic.key").unlink()
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    page = tmp_path / "out" / "audit.html"
    refused = told("audit", file, "--html", page)
    assert "--html must be in a folder that is there" in line_of(refused)
    page.parent.mkdir()
    found = told("audit", file, "--runs", "400", "--ticks", "2", "--json", "--html", page, *SURE)
    assert found.exit_code == 0, found.output
    report = json.loads(found.stdout)
    assert [each["title"] for each in report["findings"]] == [
        "clinic.toml: visits",
        "clinic.toml, stopped and resumed",
        "clinic.toml, run by run",
    ]
    assert report["findings"][0]["exact_loss"] == 1
    assert report["is_clean"]
    assert "3 claims hold" in found.stderr
    assert "clinic.toml: visits" in page.read_text()
    page.unlink()
    page.parent.rmdir()
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_broken_claim_ends_with_code_3(capsys: Any) -> None:
    broken = next(iter(list_twins()))
    guilty = CatalogueEntry("counter", "a broken one", broken.subject, runs=broken.runs)
    with pytest.raises(typer.Exit) as ended:
        command.finish_audit(audit_entries([guilty], 1000, confidence=1 - 1e-9))
    assert ended.value.exit_code == EXIT_CLAIM_BROKEN == 3
    printed = capsys.readouterr().out
    assert "a broken one: computed" in printed
    assert "0 claims hold, 1 condemned" in printed


def test_condemned_mutants_are_a_clean_report(capsys: Any) -> None:
    twins = list(list_twins())[:2]
    with AuditProgress() as waiting:
        found = command.audit_package(1000, 1 - 1e-9, waiting, quick=True, twins_only=True, twins=twins)
    command.finish_audit(found)
    assert "1 of 1 broken twins found out" in capsys.readouterr().out


@pytest.mark.slow
def test_package_audit_covers_claims_demo_and_controls(capsys: Any) -> None:
    requests: list[Any] = []

    def audit_demo_file(path: Path, ticks: Any, runs: int, confidence: float, waiting: Any) -> AuditReport:
        requests.append((read_pipeline(path), runs))
        return build_report([Verdict("clinic.toml", sg.Pure(1), WorstCase((1,), 0.5))], confidence, 1.0)

    with AuditProgress() as waiting:
        found = command.audit_package(
            500,
            1 - 1e-9,
            waiting,
            quick=True,
            twins_only=False,
            entries=list(list_entries("SimpleI")),
            twins=list(list_twins())[:2],
            audit_demo_file=audit_demo_file,
        )
    command.finish_audit(found)
    printed = capsys.readouterr().out
    for text in ("clinic.toml", "SimpleI", "1 of 1 broken twins found out"):
        assert text in printed
    ((file, runs),) = requests
    assert next(release.name for release in file.releases) == "fever_by_region"
    assert runs == command.QUICK_PIPELINE_RUNS


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["Binry"], "got Binry (did you mean Binary?)"),
        (["nothing.toml"], "the file must be there"),
        (["Binary", "--unit", "user:2"], "--unit must be event, replace"),
        (["Binary", "--unit", "user:0,2"], "--unit must be event, replace"),
        (["Binary", "--epsilon", "0"], "--epsilon must be a number above 0"),
        (["Binary", "--rho", "x"], "--rho must be a number above 0"),
        (["SquareRoot", "--epsilon", "1"], "must be a claim that SquareRoot can make"),
        (["Binary", "--all"], "--all and --mutants must be given without a name or file"),
        (["--epsilon", "1"], "--epsilon must be given with the name of a mechanism"),
        (["Binary", "--confidence", "1"], "--confidence must be between 0 and 1"),
        (["Binary", "--runs", "5"], "--runs"),
        (["Binary", "--delta", "0.1"], "--delta must be given with --epsilon"),
        (["Binary", "--epsilon", "1", "--delta", "1"], "--delta must be a number between 0 and 1"),
        (["Count", "--unit", "user:1,20", "--ticks", "40"], "--ticks and --unit: ticks must leave at most"),
        (["Binary", "--epsilon", "1e400"], "--epsilon must be a number above 0"),
        (["Binary", "--rho", "1e-400"], "--rho must be a number above 0"),
        (["."], "TARGET must be a pipeline file or a name, got the folder ."),
        (["clinic.toml", "--ticks", "65"], "--ticks must be at most 64 for a pipeline file"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else "",
)
def test_impossible_audit_is_refused_in_one_line(words: list[str], said: str) -> None:
    assert said in line_of(told("audit", *words))


def test_progress_without_a_terminal_is_a_line_at_intervals(capsys: Any) -> None:
    clock = iter([0.0, 10.0, 40.0, 45.0, 71.0])
    with AuditProgress(lambda: next(clock)) as waiting:
        waiting.update_subject("clinic.toml: visits", 1000, 12_000)
        waiting.update_subject("clinic.toml: visits", 2000, 12_000)
        waiting.update_all(3, 9, "Binary", 1, 2)
        waiting.update_all(4, 9, "Kary", 1, 2)
    out, err = capsys.readouterr()
    assert err.splitlines() == ["40 s: clinic.toml: visits, 2,000 of 12,000 runs", "71 s: 4 of 9, Kary"]
    assert out == ""


def test_file_with_release_above_budget_is_refused(tmp_path: Path) -> None:
    file = clinic(tmp_path, ONE.replace("epsilon = 1\n", "epsilon = 2\n"))
    assert "must be at most" in line_of(told("audit", file))


def test_ctrl_c_ends_an_audit_and_leaves_nothing(tmp_path: Path, failing_source: Any) -> None:
    paths: list[Path] = []

    def press(path: Path) -> None:
        paths.append(path)
        raise KeyboardInterrupt

    failing_source(b"", press)
    found = told("audit", clinic(tmp_path, ONE))
    assert found.exit_code == EXIT_STOPPED
    assert found.stdout == ""
    assert "Traceback" not in found.stderr
    assert "streamgauge-audit-" in str(paths[0])
    assert not paths[0].parent.exists()
