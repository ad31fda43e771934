"""The crash law at every step between reading and publishing: a run that dies there continues as one run.

The step names come from an unbroken run, so new steps are tested automatically.
"""

import pytest

from tests.support.crash_readers import Watched, unbroken


@pytest.mark.one_of_each("how")
@pytest.mark.parametrize(
    ("kind", "how", "noisy"),
    [
        ("batch", "fault", False),
        ("followed", "kill", False),
        ("batch users", "kill", True),
        ("followed users", "fault", True),
        ("followed weighed", "fault", False),
        ("windows", "kill", False),
        ("sketched", "kill", False),
        ("followed sketched", "kill", False),
    ],
)
def test_a_run_that_dies_at_every_step_is_one_run(kind, how, noisy):
    with Watched(kind, noisy=noisy) as run:
        for step in unbroken(kind).first:
            dies(run, step, 1, how)
        for step in unbroken(kind).often:  # the first time was for the first sink, or in catching up
            dies(run, step, 2, how)
        run.finish()
        run.whole()
        if not noisy:
            run.silent()


def dies(run, step, time, how):
    end = run.child(at=[step, time, how])
    assert end.steps[-1] == step
    assert end.killed if how == "kill" else end.error == f"Fault: {step}"
