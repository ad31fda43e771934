"""Script in the sandbox: reads one block, runs the program's `run(rows)`, writes its numbers.

Standard input holds the block (`block_process.encode_block`). The numbers leave by the file whose number is the first
argument, as doubles. Errors go to standard error, which is discarded when the records are real. This file imports
nothing of the package: it is all that the sandbox has of it.
"""

import json
import os
import resource
import sys
from itertools import pairwise
from typing import Any

import numpy as np

ReadColumns = dict[str, Any]


def set_limits(limits: dict[str, int]) -> None:
    """Lower the limits of this process for good."""
    for name, limit in (
        (resource.RLIMIT_CPU, limits["cpu_seconds"]),
        (resource.RLIMIT_AS, limits["memory_bytes"]),
        (resource.RLIMIT_FSIZE, limits["file_bytes"]),
        (resource.RLIMIT_NOFILE, limits["files"]),
        (resource.RLIMIT_NPROC, 1),  # the filter of system calls refuses more as well
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(name, (limit, limit))


def read_columns(described: list[Any], data: bytes) -> ReadColumns:
    """Return the columns by name. A text column has two parts: ends of texts, and their bytes."""
    columns: ReadColumns = {}
    start = 0
    for name, kind, sizes in described:
        parts = []
        for size in sizes:
            parts.append(data[start : start + size])
            start += size
        if kind == "text":
            ends = np.frombuffer(parts[0], np.int64).tolist()
            texts = [parts[1][low:high].decode("utf-8", "replace") for low, high in pairwise(ends)]
            columns[name] = np.array(texts, np.str_)
        else:
            columns[name] = np.frombuffer(parts[0], np.dtype(kind)).copy()
    return columns


def main() -> None:
    result = int(sys.argv[1])
    data = sys.stdin.buffer.read()
    header_end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:header_end])
    set_limits(header["limits"])
    names: dict[str, Any] = {"__name__": "program"}
    exec(compile(header["source"], "program.py", "exec"), names)
    if not callable(names.get("run")):
        raise TypeError("the program must define run(rows)")
    numbers = np.zeros(header["outputs"])
    if header["has_rows"]:
        found = names["run"](read_columns(header["columns"], data[header_end:]))
        numbers = np.asarray(found, np.float64).reshape(-1)
        if len(numbers) != header["outputs"]:
            raise ValueError(f"run(rows) must return {header['outputs']} numbers, got {len(numbers)}")
    os.write(result, numbers.tobytes())


if __name__ == "__main__":
    main()
