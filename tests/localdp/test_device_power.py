"""Power failures and killed processes: the memory is whole and has every returned report."""

import os
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from streamgauge import Pure
from streamgauge.continual.state_io import InvalidSaveError
from streamgauge.files import write_all
from streamgauge.localdp import ChargeEachReport, Device, MemoryFile
from tests.support.failing_phone import SKETCH, START
from tests.support.power_cuts import Disk, Killed, RecordingSystem

OFTEN = ChargeEachReport(Pure(99))


def reports(kind, path, times):
    """Return the reports of a device in a file, with all acts on the disk and all memories."""
    system, sent, contents = RecordingSystem(), [], [None]
    for number in range(times):
        with kind(path, system) as memory:
            device = Device(SKETCH, OFTEN, persist=memory, now=lambda: START)
            sent.append(device.report("a"))
            system.record("handed", number)
        contents.append(path.read_bytes())
    return system.acts, sent, contents


def remembers(kind, tmp_path):
    """Return whether the memory is whole and knows all reports, at every moment and disk."""
    acts, sent, kept = reports(kind, tmp_path / "emoji.memory", 3)
    assert len(set(sent)) == 3
    seen = set()
    for end in range(len(acts) + 1):
        handed = sum(act[0] == "handed" for act in acts[:end])
        for disk in Disk(tmp_path.name, acts[:end]).after_a_cut():
            found = disk.get("emoji.memory")
            if found not in kept[handed : handed + 2]:
                return False
            seen.add(kept.index(found))
    assert seen == {0, 1, 2, 3}
    return True


class InPlace(MemoryFile):
    """A twin that overwrites the file in place."""

    def store(self, memory):
        system = self.system
        descriptor = system.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        write_all(descriptor, memory, system)
        system.sync(descriptor)
        system.close(descriptor)
        system.sync_path(self.path.parent)


class NotFlushed(MemoryFile):
    """A twin that does not flush the folder."""

    def __init__(self, path, system):
        super().__init__(path, system)
        system.sync_path = lambda path: None


class NamedFirst(MemoryFile):
    """A twin that flushes the folder and not the content."""

    def store(self, memory):
        system, fresh = self.system, self.path.with_name("emoji.memory.new")
        descriptor = system.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        write_all(descriptor, memory, system)
        system.close(descriptor)
        system.replace(fresh, self.path)
        system.sync_path(self.path.parent)


def test_memory_after_power_failure_is_whole_with_all_reports(tmp_path):
    assert remembers(MemoryFile, tmp_path)


@pytest.mark.parametrize("twin", [InPlace, NotFlushed, NamedFirst])
def test_twins_that_overwrite_or_do_not_flush_are_caught(twin, tmp_path):
    assert not remembers(twin, tmp_path)


def every_end(kind, folder):
    """Yield the results of processes that each end before a later act: the path, all acts on the disk since
    there was no file, the reports of the process before, and those of this process."""
    for end in range(100):
        path = folder / f"{end}" / "emoji.memory"
        path.parent.mkdir()
        acts, before, _ = reports(kind, path, 1)
        system, sent = RecordingSystem(ends_before=end), []
        with suppress(Killed), kind(path, system) as memory:
            sent.append(Device(SKETCH, OFTEN, persist=memory, now=lambda: START).report("a"))
        yield path, [*acts, *system.acts, ("ended",)], before, sent
        if len(system.acts) < end:
            assert end > 10
            return


def test_device_continues_after_a_process_ended_at_any_act(tmp_path):
    for path, _, before, sent in every_end(MemoryFile, tmp_path):
        with MemoryFile(path) as memory:
            device = Device(SKETCH, OFTEN, persist=memory, now=lambda: START)
            assert device.spent in ({Pure(4)} if sent else {Pure(2), Pure(4)})
            assert not sent or device.last_report == sent[0]
            assert ([device.last_report] == before) == (device.spent == Pure(2))
            assert device.report("a") not in {*before, *sent}


def tells_what_is_safe(kind, folder):
    """Return whether a loaded memory survives every power cut, after any earlier process."""
    for path, acts, _, _ in every_end(kind, folder):
        system = RecordingSystem()
        with kind(path, system) as memory:
            Device(SKETCH, OFTEN, persist=memory)
        there = path.read_bytes()
        for disk in Disk(path.parent.name, [*acts, *system.acts]).after_a_cut():
            if disk.get("emoji.memory") != there:
                return False
    return True


class LoadedAtOnce(MemoryFile):
    """A twin that loads a file whose name may not be on disk."""

    def load(self):
        return self.path.read_bytes() if self.path.exists() else None


def test_loaded_memory_is_on_disk_before_it_is_used(tmp_path):
    for name, kind, safe in (("ours", MemoryFile, True), ("twin", LoadedAtOnce, False)):
        (tmp_path / name).mkdir()
        assert tells_what_is_safe(kind, tmp_path / name) is safe


@pytest.mark.parametrize("call", ["open", "write", "fsync", "replace"])
def test_failed_disk_yields_no_report_and_file_stays_usable(call, tmp_path):
    path = tmp_path / "emoji.memory"
    (first,) = reports(MemoryFile, path, 1)[1]

    def fail(*args):
        raise OSError

    system = RecordingSystem()
    with MemoryFile(path, system) as memory:
        device = Device(SKETCH, OFTEN, persist=memory)
        vars(system)[call] = fail
        with pytest.raises(OSError):  # noqa: PT011 - it is one without words
            device.report("a")
    with MemoryFile(path) as memory:
        assert Device(SKETCH, OFTEN, persist=memory).last_report == first


CHILD = """
import os, signal, sys
from streamgauge import Pure
from streamgauge.localdp import ChargeEachReport, CountMeanSketch, Device, MemoryFile
name, at = sys.argv[2], int(sys.argv[3])
plain, seen = getattr(os, name), []

def killing(*told):
    seen.append(told)
    if len(seen) == at:
        os.kill(os.getpid(), signal.SIGKILL)
    return plain(*told)

device = Device(CountMeanSketch(Pure(2), width=64), ChargeEachReport(Pure(99)), persist=MemoryFile(sys.argv[1]))
setattr(os, name, killing)
while True:
    print(device.report("a").hex(), flush=True)
"""


@pytest.mark.one_of_each
@pytest.mark.parametrize(("call", "at"), [("write", 3), ("fsync", 3), ("replace", 2), ("fsync", 6), ("close", 4)])
def test_killed_process_remembers_its_returned_reports(call, at, tmp_path):
    """The kill is at the n-th call of a system function, before or after the file is renamed."""
    path = tmp_path / "emoji.memory"
    command = [sys.executable, "-c", CHILD, str(path), call, str(at)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == -signal.SIGKILL
    sent = [bytes.fromhex(line) for line in ended.stdout.split()]
    assert sent
    with MemoryFile(path) as memory:
        device = Device(SKETCH, OFTEN, persist=memory)
        times = device.spent.epsilon // 2
        assert times in (len(sent), len(sent) + 1)
        assert (device.last_report == sent[-1]) == (times == len(sent))


def test_torn_memory_is_refused_at_every_load(tmp_path):
    path = tmp_path / "emoji.memory"
    reports(MemoryFile, path, 1)
    path.write_bytes(path.read_bytes()[:100])
    for _ in range(2):
        with MemoryFile(path) as memory, pytest.raises(InvalidSaveError):
            Device(SKETCH, persist=memory)
