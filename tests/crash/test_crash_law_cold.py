"""The crash law for the command itself: five cold starts, killed at random instants of their work."""

import random
import re
import subprocess
import sys
import time

import pytest

from tests.support.crash_readers import Watched

LONGEST = 0.5  # seconds of work
MAIN = "from streamgauge.cli import main; main()"
LIMITED = "import resource as r; r.setrlimit(r.RLIMIT_FSIZE, ({}, r.RLIM_INFINITY)); " + MAIN


def command(run, main=MAIN):
    """`streamgauge run`, as a process."""
    words = [sys.executable, "-c", main, "run", "--quiet", str(run.folder / "c.toml")]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def at_work(run, process):
    """Return True if the process holds the lock."""
    lock = run.folder / "c.streamgauge" / "lock"
    return lock.exists() and lock.read_text().strip() == str(process.pid)


def killed(run, instant):
    """Start the command and kill it `instant` seconds after it began work; return True if the kill ended it."""
    with command(run) as process:
        while process.poll() is None and not at_work(run, process):
            time.sleep(0.01)
        time.sleep(instant)
        process.kill()
    run.look()
    return process.returncode < 0


def ended(run):
    with command(run) as process:
        out, err = process.communicate()
    assert (process.returncode, out, err) == (0, "", "")
    run.look()
    run.whole()


@pytest.mark.one_of_each
@pytest.mark.parametrize("times", [2, 5])
def test_the_command_itself_may_be_killed_at_any_instant(times):
    chance, kills = random.Random(10), 0
    while kills < times:  # if one run ends too soon, start another
        with Watched("cold") as run:
            while kills < times and killed(run, chance.random() * LONGEST):
                kills += 1
            ended(run)


def test_command_on_full_disk_fails_in_one_line_then_continues():
    with Watched("brief", noisy=True) as run:
        with command(run, LIMITED.format(30_000)) as process:
            out, err = process.communicate()
        assert (process.returncode, out) == (1, "")
        assert re.fullmatch("streamgauge: store must be readable and writable, got [^\n]+\n", err), err
        run.look()
        ended(run)
