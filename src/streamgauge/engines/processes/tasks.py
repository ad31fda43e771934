"""Parts of a batch as messages between the engine and its workers.

    engine -> worker    a path for imports, then an `EngineRequest`, then one `ScanTask` after another
    worker -> engine    for each task its passes, or the error that ended it

A message is a length and a pickle, in a pipe between the engine and a process that it started. Only addresses and
declarations go to a worker, and sums come back. The key of the user hashes goes through the pipe too.

An error of this package has no data of a record, so it is returned as it is. Any other one becomes an `EngineError`.
"""

import pickle
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from struct import Struct
from typing import Any, BinaryIO

from streamgauge.engines.duckdb.connection import EngineError
from streamgauge.interfaces import Range

LENGTH = Struct("<Q")
PACKAGE = __name__.partition(".")[0]


@dataclass(frozen=True)
class ScanTask:
    """Ticks of some ranges, for all users or for one share of them."""

    ranges: Sequence[Range]
    first: int
    last: int
    share: int = 0
    shares: int = 1  # a power of two


def write_message(stream: BinaryIO, message: Any) -> None:
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    stream.write(LENGTH.pack(len(data)))
    stream.write(data)
    stream.flush()


def read_message(stream: BinaryIO) -> Any:
    """Return the next message; raise EOFError if the other process has ended."""
    header = stream.read(LENGTH.size)
    if len(header) < LENGTH.size:
        raise EOFError
    (size,) = LENGTH.unpack(header)
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return pickle.loads(data)  # written by the process at the other end of our own pipe


def redact_failure(error: Exception) -> Exception:
    """Return an error that may leave the worker."""
    if type(error).__module__.partition(".")[0] == PACKAGE:
        with suppress(Exception):  # one that cannot be copied is replaced
            pickle.loads(pickle.dumps(error))
            return error.with_traceback(None)
    return EngineError("the engine must be able to read the source, got a failure in a worker process")
