"""A memory in a file: used by one device at a time, readable by its owner only, refused if malformed."""

import gc
import signal
import stat
import subprocess
import sys
from dataclasses import replace
from threading import Event as Flag
from threading import Thread
from types import SimpleNamespace

import pytest

from streamgauge import Pure
from streamgauge.continual import RunFailedError
from streamgauge.continual.state_io import InvalidSaveError
from streamgauge.files import FileSystem
from streamgauge.localdp import ChargeEachReport, Device, MemoryFile, build_device, wire
from tests.support.codes import has_code
from tests.support.failing_phone import SKETCH, START, collection

TWICE = ChargeEachReport(Pure(4))
CHILD = """
import sys
from streamgauge import Pure
from streamgauge.localdp import ChargeEachReport, CountMeanSketch, Device, MemoryFile
from streamgauge.continual import RunFailedError
claim = CountMeanSketch(Pure(2), width=64)
try:
    device = Device(claim, ChargeEachReport(Pure(4)), persist=MemoryFile(sys.argv[1]))
    print("open", device.remaining_reports, flush=True)
    for line in sys.stdin:
        print(device.report(line).hex(), flush=True)
except RunFailedError as refused:
    print(refused, flush=True)
"""


class Child:
    """Another process that opens the memory and makes a report for each input line."""

    def __init__(self, path):
        command = [sys.executable, "-c", CHILD, str(path)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, **pipes)
        self.said = self.process.stdout.readline().strip()

    def report(self):
        self.process.stdin.write("a\n")
        self.process.stdin.flush()
        return bytes.fromhex(self.process.stdout.readline())

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "emoji.memory"


def test_device_continues_from_its_file_with_its_spending(path):
    sent = []
    for left in (2, 1, 0):
        with MemoryFile(path) as memory:
            device = Device(SKETCH, TWICE, persist=memory)
            assert (device.remaining_reports, device.last_report) == (left, sent[-1] if sent else None)
            if left:
                sent.append(device.report("a"))
    with MemoryFile(str(path)) as memory:
        told = collection("charge", 9)
        device = build_device(told, "emoji", max_loss=Pure(18), persist=memory, now=lambda: START + 10**6)
        assert (device.spent, device.remaining_reports, device.last_report) == (Pure(4), 7, sent[-1])


@pytest.mark.slow
def test_memory_is_locked_until_its_process_is_killed(path):
    words = "memory must be one device's, got emoji.memory, which another has open"
    with Child(path) as child:
        assert child.said == "open 2"
        sent = child.report()
        for _ in range(2):
            with pytest.raises(RunFailedError, match=words):
                MemoryFile(path)
        with Child(path) as second:
            assert second.said == words
        child.process.send_signal(signal.SIGKILL)
        child.process.wait()
        with MemoryFile(path) as memory:
            device = Device(SKETCH, TWICE, persist=memory)
            assert (device.remaining_reports, device.last_report) == (1, sent)
            with Child(path) as second:
                assert second.said == words
    with Child(path) as child:
        assert child.said == "open 1"


def test_memory_is_locked_for_one_device_of_a_process(path, tmp_path):
    (tmp_path / "link").symlink_to(path)
    with MemoryFile(path) as memory:
        for name in (path, tmp_path / "link", tmp_path / "." / "emoji.memory"):
            with pytest.raises(RunFailedError, check=has_code("in_use")):
                MemoryFile(name)
        Device(SKETCH, TWICE, persist=memory).report("a")
        with pytest.raises(RunFailedError, match=r"must be one device's, got emoji.memory for a second one"):
            Device(SKETCH, TWICE, persist=memory)
    with MemoryFile(path), pytest.raises(RunFailedError, check=has_code("in_use")):
        MemoryFile(path)


def drawn_by_two(kind, path):
    """Return the spending of two devices, both of which existed before either reported."""
    sent = []
    try:
        devices = [Device(SKETCH, ChargeEachReport(Pure(2)), persist=kind(path)) for _ in range(2)]
        sent = [device.report("a") for device in devices]
    except RunFailedError:
        pass
    return len(set(sent))


class Unlocked(MemoryFile):
    """A twin that locks nothing."""

    def acquire_lock(self):
        return SimpleNamespace(is_open=True, close=lambda: None)


def test_a_twin_that_does_not_lock_draws_twice(path, tmp_path):
    assert drawn_by_two(MemoryFile, path) == 0
    assert drawn_by_two(Unlocked, tmp_path / "other.memory") == 2


def test_closed_file_yields_no_report(path):
    with MemoryFile(path) as memory:
        device = Device(SKETCH, TWICE, persist=memory)
        device.report("a")
    memory.close()
    with pytest.raises(ValueError, match=r"memory must be open, got emoji.memory, which was closed"):
        device.report("a")
    with pytest.raises(RunFailedError):
        device.report("a")
    with pytest.raises(ValueError, match="which was closed"):
        Device(SKETCH, persist=memory)
    with MemoryFile(path) as memory:
        assert Device(SKETCH, TWICE, persist=memory).remaining_reports == 1


def test_files_are_accessible_to_their_owner_only(path):
    path.with_name("emoji.memory.new").write_bytes(b"what a crash has left")
    for _ in range(2):
        with MemoryFile(path) as memory:
            Device(SKETCH, TWICE, persist=memory).report("a")
        modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()}
        assert modes == {"emoji.memory": 0o600, "emoji.memory.lock": 0o600}
        path.chmod(0o644)


@pytest.mark.parametrize("wrong", [b"", b"x", "half", "altered", "collector"])
def test_malformed_memory_is_refused_and_left_unchanged(path, wrong):
    if wrong == "collector":
        path.write_bytes(SKETCH.build_collector().save())
    elif isinstance(wrong, bytes):
        path.write_bytes(wrong)
    else:
        with MemoryFile(path) as memory:
            Device(SKETCH, persist=memory).report("a")
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2] if wrong == "half" else whole[:-1] + bytes([whole[-1] ^ 1]))
    there = path.read_bytes()
    for _ in range(2):
        with MemoryFile(path) as memory, pytest.raises(InvalidSaveError):
            Device(SKETCH, persist=memory)
    assert path.read_bytes() == there


def test_saved_memory_is_loaded_into_an_empty_file_only(path, tmp_path):
    device = Device(SKETCH, TWICE)
    device.report("a")
    saved = device.save()
    with MemoryFile(path) as memory:
        Device.load(SKETCH, saved, TWICE, persist=memory).report("a")
    with MemoryFile(path) as memory, pytest.raises(ValueError, match="persist must have no memory where another"):
        Device.load(SKETCH, saved, TWICE, persist=memory)
    with MemoryFile(path) as memory:
        assert Device(SKETCH, TWICE, persist=memory).remaining_reports == 0


def test_refused_settings_leave_the_file_unchanged(path):
    with MemoryFile(path) as memory:
        with pytest.raises(ValueError, match="budget must cover"):
            Device(SKETCH, ChargeEachReport(Pure(1)), persist=memory)
        with pytest.raises(ValueError, match="max_loss must be at least"):
            build_device(collection(), "emoji", max_loss=Pure(1), persist=memory)
        assert not path.exists()
        assert Device(SKETCH, TWICE, persist=memory).remaining_reports == 2


def test_repeated_report_is_refused_for_another_collection(path):
    with MemoryFile(path) as memory:
        Device(SKETCH, persist=memory).report("a")
    with MemoryFile(path) as memory:
        told = collection(claim=replace(SKETCH, seed=7))
        other = build_device(told, "emoji", max_loss=Pure(2), persist=memory)
        with pytest.raises(wire.CollectionError, check=has_code("mismatch")):
            other.prepare_report("a")


def test_missing_folder_is_refused_and_not_created(tmp_path):
    with pytest.raises(FileNotFoundError):
        MemoryFile(tmp_path / "nowhere" / "emoji.memory")


FORKED = """
import os, signal, sys
from streamgauge.localdp import MemoryFile
memory = MemoryFile(sys.argv[1])
ready, told = os.pipe()
if os.fork() == 0:
    try:
        memory.store(b"")
    except ValueError as refused:
        print(refused, flush=True)
    os.write(told, b".")
    sys.stdin.readline()
    os._exit(0)
os.read(ready, 1)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_forked_child_stores_nothing_and_holds_no_lock(path):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", FORKED, str(path)], **pipes) as process:
        assert process.stdout.readline().strip() == "memory must be open, got emoji.memory, which was closed"
        assert process.wait() == -signal.SIGKILL  # its child lives until it gets a signal
        with MemoryFile(path) as memory:
            assert memory.load() is None
        process.stdin.close()


def test_platform_without_file_locks_refuses_memory_files_only(path):
    class Unlockable(FileSystem):
        can_lock = False

    with pytest.raises(NotImplementedError, match=r"memory must be where fcntl locks files .*, got \w+"):
        MemoryFile(path, Unlockable())
    Device(SKETCH, persist=lambda memory: None).report("a")
    assert list(path.parent.iterdir()) == []


class MacSystem(FileSystem):
    """A system with a command for full flushes, which its file system may refuse."""

    full_sync_command = 51

    def __init__(self, fails):
        self.fails, self.calls = fails, []

    def control(self, descriptor, command):
        self.calls.append(command)
        if self.fails:
            raise OSError

    def fsync(self, descriptor):
        self.calls.append("fsync")
        super().fsync(descriptor)


def test_full_flush_is_used_if_the_platform_has_it(path):
    """On macOS fsync alone leaves data in the disk's memory; some file systems have fsync alone."""
    for fails in (False, True):
        system = MacSystem(fails)
        with MemoryFile(path, system) as memory:
            memory.store(b"")
        assert system.calls == [51, "fsync", 51, "fsync"] if fails else [51, 51]


class SlowSystem(FileSystem):
    """A system whose flushes wait."""

    def __init__(self):
        self.written, self.continues = Flag(), Flag()

    def sync(self, descriptor):
        self.written.set()
        self.continues.wait(60)
        super().sync(descriptor)


def test_close_waits_while_memory_is_written(path):
    system = SlowSystem()
    memory = MemoryFile(path, system)
    device = Device(SKETCH, persist=memory)
    acts = [Thread(target=act) for act in (lambda: device.report("a"), memory.close)]
    acts[0].start()
    assert system.written.wait(60)
    acts[1].start()
    acts[1].join(0.2)
    with pytest.raises(RunFailedError, check=has_code("in_use")):
        MemoryFile(path)
    system.continues.set()
    for act in acts:
        act.join()
    with MemoryFile(path) as again:
        assert Device(SKETCH, persist=again).spent == Pure(2)


def test_file_of_a_deleted_device_can_be_opened_again(path):
    device = Device(SKETCH, persist=MemoryFile(path))
    device.report("a")
    del device
    gc.collect()
    with MemoryFile(path) as again:
        assert Device(SKETCH, persist=again).spent == Pure(2)


def test_device_with_a_memory_file_cannot_be_saved(path):
    with MemoryFile(path) as memory, pytest.raises(ValueError, match="must have its memory in no file"):
        Device(SKETCH, persist=memory).save()
