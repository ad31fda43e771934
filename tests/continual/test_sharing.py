"""Runs among threads and processes."""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import streamgauge as sg
from streamgauge.continual import Kary, RunFailedError
from streamgauge.testing.noise import SilentNoise


def test_threads_step_a_shared_run_one_at_a_time() -> None:
    run = Kary(sg.Pure(1), horizon=4000).start(5, SilentNoise())
    with ThreadPoolExecutor(8) as pool:
        released = list(pool.map(lambda _: int(run.step(np.ones(5, int))[0]), range(4000)))
    assert sorted(released) == list(range(1, 4001))


def test_a_real_fork_leaves_the_child_without_a_run() -> None:
    run = Kary(sg.Pure(1), horizon=10).start()
    run.step([1])
    child = os.fork()
    if not child:
        try:
            run.step([1])
        except RunFailedError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert run.step([1]).shape == (1,)
