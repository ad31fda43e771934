"""The sandbox against hostile programs. It needs bubblewrap."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from streamgauge.mapreduce import SampleAggregate, SandboxError, SandboxLimits
from streamgauge.mapreduce.sample_aggregate import decode_numbers
from streamgauge.mapreduce.sandbox import BlockProcess, SandboxLauncher, SlotSchedule
from streamgauge.mapreduce.sandbox.block_process import EncodedBlock, encode_block
from streamgauge.mapreduce.sandbox.bubblewrap import find_bubblewrap
from streamgauge.mapreduce.sandbox.seccomp import (
    ALLOW,
    ARCHITECTURES,
    CALLS,
    CHECKED_CALLS,
    FILE_COMMANDS,
    KILL_PROCESS,
    RETURN,
    build_filter,
    encode,
    run_filter,
)
from streamgauge.privacy import Pure
from streamgauge.testing.noise import ManualClock

needs_bubblewrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
PATIENCE = 120.0  # seconds: the machine may be busy
COUNT = """
import ctypes, os, socket, subprocess, sys, threading
def run(rows):
    libc, done = ctypes.CDLL(None, use_errno=True), 0
    for attempt in attempts(libc):
        try:
            done += bool(attempt())
        except (OSError, RuntimeError, MemoryError, ValueError):
            pass
    return [done]
"""
# each with attempts that must fail: the program returns the number of those that did not
ATTEMPTS = {
    "write": "[lambda path=path: open(path + '/x', 'w') for path in ('/', '/run', '/usr/lib', '/etc', sys.prefix)]",
    "delete": "[lambda: os.unlink(os.__file__), lambda: os.rename('/run', '/tmp/x'), lambda: os.chmod('/run', 511)]",
    "look around": "[lambda p=p: os.listdir(p) for p in ('/proc', '/sys', '/dev', '/boot', '/media')]",
    "connect": "[lambda f=f, k=k: socket.socket(f, k) for f in (1, 2, 10, 16) for k in (1, 2, 3)]",
    "fork": "[os.fork, lambda: os.posix_spawn(sys.executable, ['x'], {}), lambda: subprocess.run([sys.executable])]",
    "threads": "[threading.Thread(target=int).start]",
    "signal": "[lambda: os.kill(1, 9), lambda: os.kill(-1, 9), lambda: os.killpg(0, 9)]",
    "share": "[lambda: os.memfd_create('x'), os.pipe, lambda: libc.shmget(7, 99, 1023) >= 0, lambda: os.mkfifo('x')]",
    "locks": "[lambda n=n: libc.fcntl(0, n, bytes(32)) >= 0 for n in (5, 6, 7, 36, 37, 38, 1024, 1025, 1026, 1031)]",
    "futexes": "[lambda n=n: libc.syscall(202, ctypes.byref(ctypes.c_int()), n, 1) >= 0 for n in (1, 3)]",
    "keyrings": "[lambda n=n: libc.syscall(n, b'user', b'x', b'y', 1, -4) >= 0 for n in (248, 249, 250)]",
    "kernel": "[lambda n=n: libc.syscall(n, 0, 0, 0, 0, 0) >= 0 for n in (101, 155, 165, 272, 298, 308, 321, 425)]",
    "limits": "[lambda: __import__('resource').setrlimit(9, (-1, -1)), lambda: os.sched_setaffinity(0, [0])]",
    "memory": "[lambda: bytearray(1 << 32)]",
    "large files": "[lambda: open('/tmp/x', 'wb', 0).write(bytes(1 << 21)) > 1 << 20]",
    "many files": "[lambda: len([os.open('/run', 0) for _ in range(99)])]",
    "environment": "[lambda: set(os.environ) - {'HOME', 'LC_ALL', 'TMPDIR', 'PWD'} and 'PATH' in os.environ]",
    "users": "[lambda: os.getuid() == 0, lambda: os.setuid(0) is None, lambda: libc.unshare(0x10000000) == 0]",
}
FAILURES = {
    "exit": "import os\ndef run(rows):\n    os._exit(0)",
    "raise": "def run(rows):\n    raise SystemExit(0)",
    "import": "import no_such_package\ndef run(rows):\n    return [1.0]",
    "syntax": "def run(rows) return 1",
    "no run": "ran = 1",
    "crash": "import ctypes\ndef run(rows):\n    ctypes.string_at(0)",
    "memory": "def run(rows):\n    return [float(len(b'x' * (1 << 33)))]",
    "recursion": "def run(rows):\n    return run(rows)",
    "NaN": "def run(rows):\n    return [float('nan')]",
    "two numbers": "def run(rows):\n    return [1.0, 2.0]",
    "none": "def run(rows):\n    return []",
    "table": "def run(rows):\n    return [[1.0], [2.0]]",
    "text": "def run(rows):\n    return 'one'",
    "object": "class Trap:\n    def __reduce__(self):\n        return print, ()\ndef run(rows):\n    return [Trap()]",
    "early bytes": "import os, sys\ndef run(rows):\n    os.write(int(sys.argv[1]), b'12345678')\n    return [1.0]",
    "flood": "import os, sys\ndef run(rows):\n    while True:\n        os.write(int(sys.argv[1]), bytes(4096))",
    "endless": "def run(rows):\n    while True:\n        pass",
    "sleep": "import time\ndef run(rows):\n    time.sleep(1e6)",
    "deaf": "import signal\nfor n in (1, 2, 15):\n    signal.signal(n, signal.SIG_IGN)\nwhile True:\n    pass",
}
ENDLESS = ("flood", "endless", "sleep", "deaf")


def build_block(source: str) -> EncodedBlock:
    return encode_block(source, 1, {}, {})


@pytest.fixture(scope="module")
def launcher() -> SandboxLauncher:
    return SandboxLauncher.from_machine(SandboxLimits(memory_bytes=1 << 30, file_bytes=1 << 20, files=32))


@needs_bubblewrap
@pytest.mark.parametrize("name", ATTEMPTS)
def test_programs_reach_nothing_outside(name: str, launcher: SandboxLauncher) -> None:
    attempts = f"{COUNT}\ndef attempts(libc):\n    return {ATTEMPTS[name]}\n"
    (done,) = np.frombuffer(launcher.try_block(build_block(attempts), PATIENCE))
    assert done == 0


@needs_bubblewrap
@pytest.mark.parametrize("name", ["connect", "share", "locks", "futexes"])
def test_broken_twin_without_a_filter_is_caught(name: str, launcher: SandboxLauncher) -> None:
    twin = replace(launcher, seccomp=encode(RETURN, ALLOW))
    attempts = f"{COUNT}\ndef attempts(libc):\n    return {ATTEMPTS[name]}\n"
    (done,) = np.frombuffer(twin.try_block(build_block(attempts), PATIENCE))
    assert done > 0


@needs_bubblewrap
@pytest.mark.parametrize("name", [name for name in FAILURES if name not in ENDLESS])
def test_failing_programs_give_the_default(name: str, launcher: SandboxLauncher) -> None:
    process = launcher.launch(build_block(FAILURES[name]))
    assert process.wait(PATIENCE)
    assert np.isnan(decode_numbers(process.stop(), 1)).all()


@needs_bubblewrap
def test_endless_programs_are_killed_and_give_the_default(launcher: SandboxLauncher) -> None:
    blocks = [build_block(FAILURES[name]) for name in ENDLESS]
    processes = [launcher.launch(block) for block in blocks]
    assert not any(process.wait(0.5) for process in processes)
    assert all(np.isnan(decode_numbers(process.stop(), 1)).all() for process in processes)
    assert all(process.process.returncode is not None for process in processes)


@needs_bubblewrap
def test_slots_end_on_time_for_real_programs(launcher: SandboxLauncher) -> None:
    for name in ("exit", "endless"):
        clock = ManualClock()
        SlotSchedule(1).run([build_block(FAILURES[name])] * 2, launcher, clock, 0)
        assert clock.steady() == 3_000_000


@needs_bubblewrap
def test_printing_programs_return_their_numbers(launcher: SandboxLauncher) -> None:
    source = "import sys\ndef run(rows):\n    print('x' * 10**6)\n    sys.stderr.write('y' * 10**5)\n    return [7.0]"
    process = launcher.launch(build_block(source))
    assert process.wait(PATIENCE)
    assert decode_numbers(process.stop(), 1) == [7.0]


@needs_bubblewrap
def test_files_of_a_block_are_gone_in_the_next(launcher: SandboxLauncher) -> None:
    source = """
import os
def run(rows):
    before = os.path.exists("/tmp/mark")
    open("/tmp/mark", "w").close()
    return [before + 2 * os.path.exists("/tmp/mark")]
"""
    for _ in range(2):
        assert np.frombuffer(launcher.try_block(build_block(source), PATIENCE)).tolist() == [2]


@needs_bubblewrap
def test_host_files_do_not_exist_in_the_sandbox(tmp_path: Path, launcher: SandboxLauncher) -> None:
    (tmp_path / "secret").write_text("x")
    source = (
        f"import os\ndef run(rows):\n    return [os.path.exists({str(tmp_path)!r}) or os.path.exists('/etc/passwd')]"
    )
    assert np.frombuffer(launcher.try_block(build_block(source), PATIENCE)).tolist() == [0]


@needs_bubblewrap
def test_a_program_holds_only_its_block_and_result(launcher: SandboxLauncher) -> None:
    source = """
import os
def run(rows):
    found = 0
    for number in range(32):
        try:
            os.fstat(number)
            found += 1
        except OSError:
            pass
    return [found]
"""
    assert np.frombuffer(launcher.try_block(build_block(source), PATIENCE)).tolist() == [4]


@needs_bubblewrap
def test_columns_arrive_as_they_were() -> None:
    source = """
def run(rows):
    days = (rows["day"].max() - rows["day"].min()).astype(float) / 86_400e6
    return [rows["x"].sum(), (rows["city"] == "K\\u00f8ge").sum(), days, rows["paid"].sum()]
"""
    kinds = {"x": "number", "city": "text", "day": "time", "paid": "bool"}
    aggregate = SampleAggregate(source, kinds, [(0, 9, 1)] * 4, Pure(400), blocks=9)  # type: ignore[arg-type]
    rows = {"x": [1, 2.5], "city": ["Køge", "Aarhus"], "paid": [True, False]}
    rows |= {"day": np.array(["2026-01-01", "2026-01-03"], "datetime64[us]")}
    assert aggregate.try_program(rows, PATIENCE) == [3.5, 1, 2, 1]


@dataclass
class PatientBlock:
    """A block that is stopped when its program has ended, however busy the machine is."""

    process: BlockProcess

    def stop(self) -> bytes:
        assert self.process.wait(PATIENCE)
        return self.process.stop()


@dataclass
class PatientLauncher:
    launcher: SandboxLauncher

    def launch(self, block: EncodedBlock) -> PatientBlock:
        return PatientBlock(self.launcher.launch(block))


@needs_bubblewrap
def test_windows_run_in_real_sandboxes(launcher: SandboxLauncher) -> None:
    source = "def run(rows):\n    return [rows['x'].mean(), len(rows['x'])]"
    outputs = [(0, 9, 1), (0, 99, 1)]
    aggregate = SampleAggregate(source, {"x": "number"}, outputs, Pure(10**5), blocks=3, combine="mean", parallel=2)
    run = aggregate.start(launcher=PatientLauncher(launcher), clock=ManualClock())
    assert run.step({"x": np.full(30, 4.0)}).values == [4.0, 10.0]


@needs_bubblewrap
def test_trials_show_the_message_of_the_program() -> None:
    aggregate = SampleAggregate(
        "def run(rows):\n    return rows['y']", {"x": "number"}, [(0, 9, 1)], Pure(10), blocks=9
    )
    with pytest.raises(SandboxError, match="KeyError: 'y'"):
        aggregate.try_program({"x": [1.0]}, PATIENCE)
    wrong = SampleAggregate("import no_such_package", {}, [(0, 9, 1)], Pure(10), blocks=9)
    with pytest.raises(SandboxError, match="No module named 'no_such_package'"):
        wrong.start()
    endless = SampleAggregate("while True: pass", {}, [(0, 9, 1)], Pure(10), blocks=9)
    with pytest.raises(SandboxError, match=r"the program must end by itself in 0\.5 s"):
        endless.try_program(seconds=0.5)


@needs_bubblewrap
def test_slots_shorter_than_the_start_are_refused() -> None:
    slow = SampleAggregate("import time\ntime.sleep(1)\nrun = min", {}, [(0, 9, 1)], Pure(9), blocks=9, slot_seconds=1)
    with pytest.raises(ValueError, match="9/10 of slot_seconds must exceed the start of the program"):
        slow.start()


@needs_bubblewrap
def test_blocks_stopped_at_any_moment_leave_nothing(launcher: SandboxLauncher) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for name, seconds in product(("exit", "endless"), (0, 0, 0, 0.001, 0.003, 0.01, 0.03, 0.1)):
        process = launcher.launch(build_block(FAILURES[name]))
        process.wait(seconds)
        assert process.stop() == b""
    assert len(os.listdir("/proc/self/fd")) == before


def test_other_systems_are_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match=r"whole programs need Linux, .* got Darwin"):
        find_bubblewrap("Darwin")
    with pytest.raises(SandboxError, match="found none: install the package bubblewrap"):
        find_bubblewrap("Linux", str(tmp_path))
    with pytest.raises(SandboxError, match="the processor must be x86_64 or aarch64"):
        build_filter("riscv64")


def test_limits_must_be_whole_numbers() -> None:
    with pytest.raises(ValueError, match="files must be a whole number of at least 1, got 0"):
        SandboxLimits(files=0)


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_filter_allows_its_list_and_nothing_else(machine: str) -> None:
    code, column = build_filter(machine), list(ARCHITECTURES).index(machine)
    allowed = {numbers[column] for numbers in CALLS.values()}
    fcntl, futex = (numbers[column] for numbers in CHECKED_CALLS.values())
    for command in range(2048):
        assert (run_filter(code, ARCHITECTURES[machine], fcntl, command) == ALLOW) == (command in FILE_COMMANDS)
        assert (run_filter(code, ARCHITECTURES[machine], futex, command) == ALLOW) == bool(command & 128)
    for call in set(range(1024)) - {fcntl, futex}:
        assert (run_filter(code, ARCHITECTURES[machine], call) == ALLOW) == (call in allowed)
    assert run_filter(code, ARCHITECTURES[machine], 0x40000000) == KILL_PROCESS
    assert run_filter(code, 0x40000003, 1) == KILL_PROCESS


def test_numbers_of_calls_are_distinct() -> None:
    for column in (0, 1):
        numbers = [each[column] for each in CALLS.values() if each[column] is not None]
        assert len(numbers) == len(set(numbers))


def test_package_imports_without_modules_of_linux() -> None:
    blocked = "import sys; sys.modules.update(fcntl=None, resource=None); import streamgauge.mapreduce"
    subprocess.run([sys.executable, "-P", "-c", blocked], check=True)
