"""What differs in every run that was tried is condemned by what so many runs show, and by no more."""

from types import SimpleNamespace
from typing import Any

import pytest

from streamgauge.audit.measuring import FEWEST
from streamgauge.audit.report import Finding
from streamgauge.audit.run_by_run import MOST_ALONE, AsWritten
from streamgauge.audit.verdict import Verdict
from streamgauge.privacy import Approx, Loss, Pure

DOUBT = 1e-3
PAIR = SimpleNamespace(name="the fourth event of a word")


def seen_apart(loss: Loss, runs: int, *, discovered: bool = True) -> AsWritten:
    """So many runs were made on each side: all of one say one thing, all of the other another."""
    trial = SimpleNamespace(discovered=discovered)
    comparison: Any = SimpleNamespace(suspects=[PAIR], trial=trial, redrawn=[])
    noise: Any = None
    said = {(0, True): [1.0] * runs, (0, False): [2.0] * runs}
    return AsWritten("a file", loss, comparison, noise, said)


def test_an_honest_threshold_that_always_tips_is_not_condemned() -> None:
    """At rho 12 and delta 1e-33 three events of a word are never published, and four always."""
    written = seen_apart(Approx(71, 1e-33), 4000)
    assert not list(written.reasons(DOUBT))
    (told,) = written.doubts(DOUBT)
    assert told == f"undecided: something differs in every run that was tried for {PAIR.name}"
    finding = Finding("pipeline", "a file", Verdict("a file", written.loss, doubts=(told,)))
    assert (finding.as_it_must_be, finding.words) == (True, f"holds ({told})")


def test_a_claim_that_so_many_runs_refute_is_condemned() -> None:
    written = seen_apart(Approx(2, 1e-6), 100)
    (reason,) = written.reasons(DOUBT)
    assert reason.startswith(
        f"what is public besides numbers differs in every run for {PAIR.name}: epsilon 2."
    )
    assert not list(written.doubts(DOUBT))


def test_too_few_runs_refute_nothing() -> None:
    written = seen_apart(Pure("1/2"), 3)
    assert not list(written.reasons(DOUBT))
    assert list(written.doubts(DOUBT))


def test_what_is_the_same_in_a_run_is_no_reason() -> None:
    written = seen_apart(Pure("1/2"), 200)
    written.said[0, True][7] = 2.0
    assert not [*written.reasons(DOUBT), *written.doubts(DOUBT)]


@pytest.mark.parametrize("loss", [Pure(40), Pure(10**6), Approx(10**6, 1e-33), Approx(40, 1 - 1e-9)], ids=str)
def test_where_no_number_of_runs_would_do_the_fewest_are_made(loss: Loss) -> None:
    assert seen_apart(loss, 1).needed(DOUBT) == FEWEST


def test_as_many_runs_are_made_as_condemn_what_always_differs() -> None:
    written = seen_apart(Pure(4), 1)
    assert FEWEST < written.needed(DOUBT) <= MOST_ALONE
    assert list(seen_apart(Pure(4), written.needed(DOUBT)).reasons(DOUBT))
