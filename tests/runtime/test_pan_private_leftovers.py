"""A pan-private run leaves no earlier registers in the memory of its process.

Earlier registers together with the present ones would reveal the events in between exactly. So the tests search
the whole memory, garbage included, after a restart, after a command to a server, and after a failure. Noise is
silent: registers are the sums that were sent, and no mark is there by chance. Each search runs in a process of
its own, because a process that has run other tests has millions of objects.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from streamgauge.interfaces import ignore
from streamgauge.plan.planner import ReleasePlan
from streamgauge.runtime.adhoc.releases import AdHocRelease, parse_adhoc_release
from streamgauge.runtime.commands import apply
from streamgauge.runtime.options import Options
from streamgauge.runtime.release_run import ReleaseRun
from streamgauge.runtime.session import RunSession, SessionBuilder
from streamgauge.server import runner as runners
from streamgauge.server.runner import NotRunningError, Runner
from streamgauge.server.tuning import Tuning
from streamgauge.testing.noise import ManualClock, SilentNoise
from tests.runtime.test_pan_private_memory import TEXT, VALUES, Moments, batch, looked_at, private
from tests.support.crash_readers import in_memory
from tests.support.memory_searched import everything, in_octets, nothing_collected
from tests.support.pipelines import START

MARKS = {*VALUES.values()}
LESS = 1000  # difference of the second batch

Twin = Callable[[pytest.MonkeyPatch], None]
Apart = Callable[..., set[Any]]
tmp_path = pytest.fixture(in_memory, name="tmp_path")


def as_it_is(patch: pytest.MonkeyPatch) -> None:
    """No twin."""


def under(twin: Twin, happens: Callable[..., set[Any]], *given: Any) -> set[Any]:
    with pytest.MonkeyPatch.context() as patch:
        twin(patch)
        return happens(*given)


@pytest.fixture(scope="module")
def apart() -> Iterator[Apart]:
    """Call a function in another process, with a twin in place; its exceptions are raised here."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:

        def call(happens: Callable[..., set[Any]], *given: Any, twin: Twin = as_it_is) -> set[Any]:
            return process.submit(under, twin, happens, *given).result()

        yield call


def committed(*run: Any) -> set[Any]:
    """Return the sums of the first batch in memory, which are the registers before the second one."""
    return in_octets(everything(), MARKS)


def after_a_restart(folder: Path) -> set[Any]:
    """Return the marks after a run was stopped in the middle of a tick and resumed in the same tick."""
    made, silent = private(folder), SilentNoise()
    before, after = Moments(looked=14, stopped=16), Moments(16, 17, 18, 19)
    observed, _ = looked_at(folder, committed, made, when=before, noise=silent)
    assert observed == MARKS, "they are in the registers, and found there"
    with nothing_collected():
        return looked_at(folder, committed, made, batch(LESS), when=after, noise=silent)[0]


@pytest.mark.slow
def test_resumed_run_has_no_earlier_registers_in_memory(tmp_path: Path, apart: Apart) -> None:
    assert apart(after_a_restart, tmp_path) == set()


def kept_openings(patch: pytest.MonkeyPatch) -> None:
    """The broken twin: a builder that refers to itself, so that its state becomes garbage."""
    begun = SessionBuilder.build

    def kept(self: SessionBuilder) -> RunSession:
        self.itself = self  # type: ignore[attr-defined]
        return begun(self)

    def forget(self: RunSession) -> None:
        self.state = {"secret": self.secret}

    patch.setattr(SessionBuilder, "build", kept)
    patch.setattr(RunSession, "forget", forget)


def test_twin_builder_that_refers_to_itself_is_caught(tmp_path: Path, apart: Apart) -> None:
    assert apart(after_a_restart, tmp_path, twin=kept_openings) == MARKS


class Standing(ManualClock):
    """A clock that stands still during sleeps."""

    def sleep(self, microseconds: int) -> None:
        time.sleep(0.001)


def eventually(holds: Callable[[], Any]) -> None:
    """Wait for another thread, and fail after a time that no machine needs."""
    for _ in range(20_000):
        if holds():
            return
        time.sleep(0.001)
    raise AssertionError("it must come to pass, got nothing of it")


def runner_of(folder: Path, step: Callable[[str], None] = ignore, **options: Any) -> Runner:
    made = private(folder, budget={"epsilon": 2})
    clock = Standing(time=(START + 14) * 1_000_000)
    chosen = Options(clock=clock, step=step, noise=SilentNoise(), **options)
    return Runner(made.file, chosen, tuning=Tuning(align_commands=False))


def send(runner: Runner, lines: bytes) -> None:
    """Send a batch and then another one; after that the first is only in the registers."""
    assert runner.inbox is not None
    for each in (lines, b"{}"):
        runner.inbox.put("", each).done.result(20)


class FailingRun(ReleaseRun):
    """A run that cannot be built for the added release."""

    @classmethod
    def start(cls, plan: ReleasePlan, name: str, first: int, noise: Any) -> ReleaseRun:
        if name == "m":
            raise OSError(28, "no space left on device")
        return super().start(plan, name, first, noise)


def after_a_command(folder: Path, kind: type[ReleaseRun]) -> set[Any]:
    """Return the marks in the memory of a server that got a request between two batches."""
    runner = runner_of(folder, components={ReleaseRun: kind})
    body = {"name": "m", "sql": "SELECT COUNT(*) FROM v", "epsilon": "1/8", "horizon": "100s"}
    requested = AdHocRelease(parse_adhoc_release(body, runner.file.stream), "ana")
    with nothing_collected():
        runner.start()
        try:
            send(runner, batch())
            added = runner.submit_release(requested).exception(20)
            assert isinstance(added, NotRunningError if kind is FailingRun else type(None))
            send(runner, batch(LESS))
            return committed()
        finally:
            runner.stop()


@pytest.mark.parametrize("kind", [ReleaseRun, FailingRun], ids=["added", "failed"])
def test_server_command_leaves_no_earlier_registers_in_memory(
    tmp_path: Path, apart: Apart, kind: type[ReleaseRun]
) -> None:
    assert apart(after_a_command, tmp_path, kind) == set()


def kept_parts(patch: pytest.MonkeyPatch) -> None:
    """The broken twin: the state that a command commits stays in memory."""
    kept = list[Any]()
    patch.setattr(apply, "overwrite", kept.append)


def test_twin_that_retains_committed_state_is_caught(tmp_path: Path, apart: Apart) -> None:
    assert apart(after_a_command, tmp_path, ReleaseRun, twin=kept_parts) == MARKS


def after_a_failure(folder: Path) -> set[Any]:
    """Return the marks in a server's memory after its run failed with a batch that it had read."""

    def step(name: str) -> None:
        if name == "block_read":
            try:
                raise ValueError(name)
            except ValueError:
                raise OSError(28, "no space left on device") from None

    runner = runner_of(folder, step)
    with nothing_collected():
        runner.start()
        try:
            runner.inbox.put("", batch())  # type: ignore[union-attr]
            eventually(lambda: not runner.is_alive)
            assert (runner.state, runner.error) == ("failed", "OSError")
            return in_octets(everything(), {*MARKS, TEXT})
        finally:
            runner.stop()


def test_failed_run_retains_no_record_while_server_continues(tmp_path: Path, apart: Apart) -> None:
    assert apart(after_a_failure, tmp_path) == set()


def kept_failures(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(runners, "clear_traceback", lambda failure, *, keep_lines: None)


def test_twin_that_retains_traceback_of_failure_is_caught(tmp_path: Path, apart: Apart) -> None:
    assert apart(after_a_failure, tmp_path, twin=kept_failures) == {*MARKS, TEXT}


def test_cleared_failure_has_no_locals_and_optionally_no_lines() -> None:
    def fails() -> None:
        secret = TEXT
        try:
            raise ValueError(secret)
        except ValueError as error:
            raise OSError(28) from error

    for where in (True, False):
        with pytest.raises(OSError, match="28") as caught:
            fails()
        failure = caught.value
        runners.clear_traceback(failure, keep_lines=where)
        assert (failure.__traceback__ is not None, failure.__cause__ is not None) == (where, where)
        trace = failure.__traceback__
        while trace is not None:
            assert "secret" not in trace.tb_frame.f_locals
            trace = trace.tb_next
