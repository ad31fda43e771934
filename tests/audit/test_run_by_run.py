"""A difference in every run condemns a claim only if the number of runs refutes it."""

from types import SimpleNamespace
from typing import Any

import pytest

from streamgauge.audit.attack.measure import MIN_RUNS
from streamgauge.audit.pipeline.compare import MAX_SINGLE_RUNS, RunByRunSubject
from streamgauge.audit.report import Finding
from streamgauge.audit.verdict import Verdict
from streamgauge.privacy import Approx, Loss, Pure

DOUBT = 1e-3
PAIR = SimpleNamespace(name="the fourth event of a word")


def list_differences(loss: Loss, runs: int, *, discovered: bool = True) -> RunByRunSubject:
    """Build a subject with this many runs a side, each side with its own constant text."""
    trial = SimpleNamespace(has_tick_groups=discovered)
    comparison: Any = SimpleNamespace(suspects=[PAIR], trial=trial, redrawn_interruptions=[])
    noise: Any = None
    said = {(0, True): [1.0] * runs, (0, False): [2.0] * runs}
    return RunByRunSubject("a file", loss, comparison, noise, said)


def test_an_honest_threshold_that_always_tips_is_not_condemned() -> None:
    """At rho 12 and delta 1e-33 three events of a word are never published, and four always."""
    written = list_differences(Approx(71, 1e-33), 4000)
    assert not list(written.list_reasons(DOUBT))
    (result,) = written.list_doubts(DOUBT)
    assert result == f"undecided: something differs in every run that was tried for {PAIR.name}"
    finding = Finding("pipeline", "a file", Verdict("a file", written.loss, doubts=(result,)))
    assert (finding.is_expected, finding.summary) == (True, f"holds ({result})")


def test_claim_refuted_by_the_runs_is_condemned() -> None:
    written = list_differences(Approx(2, 1e-6), 100)
    (reason,) = written.list_reasons(DOUBT)
    assert reason.startswith(f"what is public besides numbers differs in every run for {PAIR.name}: epsilon 2.")
    assert not list(written.list_doubts(DOUBT))


def test_too_few_runs_refute_nothing() -> None:
    written = list_differences(Pure("1/2"), 3)
    assert not list(written.list_reasons(DOUBT))
    assert list(written.list_doubts(DOUBT))


def test_difference_missing_in_one_run_is_no_reason() -> None:
    written = list_differences(Pure("1/2"), 200)
    written.public_codes[0, True][7] = 2.0
    assert not [*written.list_reasons(DOUBT), *written.list_doubts(DOUBT)]


@pytest.mark.parametrize("loss", [Pure(40), Pure(10**6), Approx(10**6, 1e-33), Approx(40, 1 - 1e-9)], ids=str)
def test_minimum_runs_are_made_if_no_number_suffices(loss: Loss) -> None:
    assert list_differences(loss, 1).compute_runs(DOUBT) == MIN_RUNS


def test_computed_runs_suffice_to_condemn_a_constant_difference() -> None:
    written = list_differences(Pure(4), 1)
    assert MIN_RUNS < written.compute_runs(DOUBT) <= MAX_SINGLE_RUNS
    assert list(list_differences(Pure(4), written.compute_runs(DOUBT)).list_reasons(DOUBT))
