"""One block in one sandbox: its bytes in, its numbers out.

The records go in as a sealed file in memory, so that no program can block the sender. The numbers come out as
doubles of a fixed number through a pipe. The reader takes at most one byte more than it expects, and no other format
than that: nothing that a program writes is unpickled, parsed or shown.

A second pipe is open in bubblewrap's first process only. At its end every process of the sandbox is gone.
"""

import json
import os
import platform
import select
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from tempfile import TemporaryFile

import numpy as np

from streamgauge.mapreduce.columns import RecordColumn, TextColumn
from streamgauge.mapreduce.program import ValueKind
from streamgauge.mapreduce.sandbox.bubblewrap import SandboxLimits, build_command, find_bubblewrap
from streamgauge.mapreduce.sandbox.errors import SandboxError
from streamgauge.mapreduce.sandbox.seccomp import build_filter

STOP_SECONDS = 10.0  # after which a killed sandbox that is still there is an error
MAX_MESSAGE_BYTES = 4096


def encode_block(
    source: str, outputs: int, kinds: Mapping[str, ValueKind], columns: Mapping[str, RecordColumn] | None
) -> "EncodedBlock":
    """Return a block for the worker. Without columns, the program is loaded and `run` is not called."""
    described, parts = [], []
    for name, column in (columns or {}).items():
        kind, buffers = encode_column(kinds[name], column)
        described.append((name, kind, [len(buffer) for buffer in buffers]))
        parts += buffers
    header = {"source": source, "outputs": outputs, "columns": described, "has_rows": columns is not None}
    return EncodedBlock(header, b"".join(parts), outputs)


def encode_column(kind: ValueKind, column: RecordColumn) -> tuple[str, list[bytes]]:
    if isinstance(column, TextColumn):
        return "text", [column.ends.tobytes(), column.data]
    if kind == "time":
        moments = np.where(np.isfinite(column), column, 0).astype(np.int64).astype("datetime64[us]")
        moments[~np.isfinite(column)] = np.datetime64("NaT")
        return "datetime64[us]", [moments.tobytes()]
    return column.dtype.str, [column.tobytes()]


@dataclass(frozen=True)
class EncodedBlock:
    """Bytes of one block. They are secret."""

    header: dict[str, object] = field(repr=False)
    data: bytes = field(repr=False)  # exact: the records
    outputs: int

    def to_bytes(self, limits: SandboxLimits) -> bytes:
        header = json.dumps({**self.header, "limits": asdict(limits)}).encode()
        return len(header).to_bytes(8, "little") + header + self.data


@dataclass
class BlockProcess:
    """A sandbox at work on one block."""

    process: subprocess.Popen[bytes]
    result_fd: int
    sync_fd: int
    result_bytes: int

    def wait(self, seconds: float) -> bool:
        """Wait until the program ends, and return whether it did."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        return self.process.returncode is not None

    def stop(self) -> bytes:
        """Kill the sandbox, and return what its program wrote, cut off at one byte too many."""
        try:
            self._kill()
            if not self._wait_for_end():
                raise SandboxError("a killed sandbox did not end, so no other block may start: restart the machine")
            os.set_blocking(self.result_fd, False)
            try:
                return os.read(self.result_fd, self.result_bytes + 1)
            except BlockingIOError:
                return b""
        finally:
            self._close()

    def _kill(self) -> None:
        """Kill all processes of the sandbox: they are one group, which the filter lets none of them leave."""
        if self.process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def _wait_for_end(self) -> bool:
        poll = select.poll()
        poll.register(self.sync_fd, select.POLLIN)
        return bool(poll.poll(1000 * STOP_SECONDS)) and os.read(self.sync_fd, 1) == b""

    def _close(self) -> None:
        os.close(self.result_fd)
        os.close(self.sync_fd)


@dataclass(frozen=True)
class SandboxLauncher:
    """Starts sandboxes. Each block has one of its own."""

    bubblewrap: str
    seccomp: bytes = field(repr=False)
    limits: SandboxLimits = field(default_factory=SandboxLimits)

    @classmethod
    def from_machine(cls, limits: SandboxLimits | None = None) -> "SandboxLauncher":
        """Return the launcher of this machine, or raise SandboxError with the reason."""
        path = find_bubblewrap()
        return cls(path, build_filter(platform.machine()), SandboxLimits() if limits is None else limits)

    def launch(self, block: EncodedBlock) -> BlockProcess:
        return self._launch(block, subprocess.DEVNULL)

    def try_block(self, block: EncodedBlock, seconds: float) -> bytes:
        """Return the result of a block without private records, or raise SandboxError with the program's message."""
        with TemporaryFile() as messages:
            process = self._launch(block, messages.fileno())
            ended = process.wait(seconds)
            result = process.stop()
            messages.seek(0)
            message = messages.read()[-MAX_MESSAGE_BYTES:].decode("utf-8", "replace").strip()
        if not ended:
            raise SandboxError(f"the program must end by itself in {seconds:g} s, got one that runs")
        if len(result) != process.result_bytes:
            raise SandboxError(f"the program must return {block.outputs} numbers, got:\n{message or 'no message'}")
        return result

    def _launch(self, block: EncodedBlock, errors: int) -> BlockProcess:
        result_read, result_write = os.pipe()
        sync_read, sync_write = os.pipe()
        try:
            with memory_file(block.to_bytes(self.limits)) as records, memory_file(self.seccomp) as seccomp:
                inherited = (seccomp, sync_write, result_write)
                process = subprocess.Popen(
                    build_command(self.bubblewrap, *inherited, self.limits),
                    stdin=records,
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    pass_fds=inherited,
                    env={},
                    start_new_session=True,
                )
        except BaseException:
            os.close(result_read)
            os.close(sync_read)
            raise
        finally:
            os.close(result_write)
            os.close(sync_write)
        return BlockProcess(process, result_read, sync_read, 8 * block.outputs)


@contextmanager
def memory_file(data: bytes) -> Iterator[int]:
    """Open a sealed file in memory at its start."""
    import fcntl  # not on Windows, where this package is imported all the same

    number = os.memfd_create("block", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        with open(number, "wb", closefd=False) as file:
            file.write(data)
        os.lseek(number, 0, os.SEEK_SET)
        seals = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
        fcntl.fcntl(number, fcntl.F_ADD_SEALS, seals)
        yield number
    finally:
        os.close(number)
