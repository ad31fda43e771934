"""Compiled mappers in wasmtime: columns of records in, pairs out, batch by batch.

Privacy
    Each record starts with the same memory and steps, and the module imports nothing. So its pairs are a function of
    the program and that record, in any order and any batch. The memory is erased after each batch. Nothing but
    pairs leaves: no count of failures, message or exit code. Fuel is a second limit that no program reaches.
"""

import atexit
import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from streamgauge.mapreduce.columns import Doubles, RecordColumn, TextColumn
from streamgauge.mapreduce.compiler import compile_program
from streamgauge.mapreduce.memory_layout import MAX_BATCH_RECORDS, TEXT_BATCH_BYTES, MemoryLayout
from streamgauge.mapreduce.program import MapperProgram
from streamgauge.noise import Ints
from streamgauge.optional import require_package

FUEL_PER_STEP, FUEL_PER_RECORD = 1_000, 2**22


@dataclass(frozen=True, eq=False)
class MappedPairs:
    """Pairs of some records: number of the record, index of the key, and value."""

    records: Ints
    keys: Ints
    values: Doubles


@lru_cache(maxsize=32)
def build_module(text: str) -> tuple[Any, Any]:
    """Return a compiled module and its engine. Executors share it: it has no memory, which each instance has."""
    import wasmtime

    config = wasmtime.Config()
    config.consume_fuel = True
    engine = wasmtime.Engine(config)
    return wasmtime.Module(engine, text), engine


atexit.register(build_module.cache_clear)  # while wasmtime can still free modules


@dataclass
class MapperExecutor:
    """Executor of one program, used by one thread at a time.

    With `constant_work` a record that ends early, or fails, spends the steps that it has left. Then the steps of a
    batch depend on the number of its records, and not on their content. Kinds of steps take different times.
    """

    program: MapperProgram
    batch_records: int = MAX_BATCH_RECORDS
    constant_work: bool = False
    fuel_used: int = field(default=0, init=False, repr=False)  # of the last batch: secret, and never published

    @cached_property
    def layout(self) -> MemoryLayout:
        return MemoryLayout(self.program)

    @cached_property
    def _instance(self) -> tuple[Any, Any, Any]:
        """Store, memory and function."""
        with require_package("wasmtime", "streamgauge[mapper]"):
            import wasmtime
        module, engine = build_module(compile_program(self.program, self.layout))
        store = wasmtime.Store(engine)
        exports = wasmtime.Instance(store, module, []).exports(store)
        return store, exports["memory"], exports["run"]

    @cached_property
    def memory(self) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
        """The whole memory, whose size never changes."""
        store, memory, _ = self._instance
        address = ctypes.addressof(memory.data_ptr(store).contents)
        size = memory.data_len(store)
        return np.frombuffer((ctypes.c_ubyte * size).from_address(address), np.uint8)

    def prepare(self) -> None:
        """Compile the program now, so that the first record takes no longer than others."""
        self._instance  # noqa: B018 - cached

    def run(self, columns: Mapping[str, RecordColumn], check: Callable[[], None] | None = None) -> MappedPairs:
        """Return the pairs of all records, in their order. `check` is called before each batch, and may raise."""
        count = len(next(iter(columns.values()))) if columns else 0
        found, begin = [], 0
        while begin < count:
            if check is not None:
                check()
            end = self._find_batch_end(columns, begin, count)
            pairs = self._run_batch(columns, begin, end)
            found.append(MappedPairs(pairs.records + begin, pairs.keys, pairs.values))
            begin = end
        if len(found) == 1:
            return found[0]
        none = [np.zeros(0, np.int64)]
        return MappedPairs(
            np.concatenate([each.records for each in found] or none),
            np.concatenate([each.keys for each in found] or none),
            np.concatenate([each.values for each in found] or [np.zeros(0)]),
        )

    def _find_batch_end(self, columns: Mapping[str, RecordColumn], begin: int, count: int) -> int:
        """Return the end of a batch that has room for the texts of its records."""
        end = min(count, begin + min(self.batch_records, self.layout.max_records))
        for name, _ in self.program.columns:
            column = columns[name]
            if isinstance(column, TextColumn):
                most = column.ends[begin] + TEXT_BATCH_BYTES
                end = min(end, int(np.searchsorted(column.ends, most, "right")) - 1)
        return end

    def _run_batch(self, columns: Mapping[str, RecordColumn], begin: int, end: int) -> MappedPairs:
        store, _, run = self._instance
        written: list[tuple[int, int]] = []
        for name, _ in self.program.columns:
            written += self._write_column(name, columns[name], begin, end)
        count, steps = end - begin, self.program.max_steps
        fuel = min(2**62, count * (steps * FUEL_PER_STEP + FUEL_PER_RECORD))
        store.set_fuel(fuel)
        pairs = run(store, count, steps, int(self.constant_work))
        self.fuel_used = fuel - store.get_fuel()
        records = self._read("out_records", np.int32, pairs).astype(np.int64)
        keys = self._read("out_keys", np.int32, pairs).astype(np.int64)
        values = self._read("out_values", np.float64, pairs).copy()
        for name, item in (("out_records", 4), ("out_keys", 4), ("out_values", 8)):
            place = self.layout.places[name]
            written.append((place, place + item * pairs))
        for first, last in written:
            self.memory[first:last] = 0
        return MappedPairs(records, keys, values)

    def _read(self, name: str, kind: type[np.generic], count: int) -> Any:
        place = self.layout.places[name]
        return self.memory[place : place + count * np.dtype(kind).itemsize].view(kind)

    def _write_column(self, name: str, column: RecordColumn, begin: int, end: int) -> list[tuple[int, int]]:
        """Copy some records into the memory, and return the ranges that were written."""
        place = self.layout.places[f"column {name}"]
        if not isinstance(column, TextColumn):
            kind = np.dtype(np.int64 if column.dtype.kind == "b" else np.float64)
            last = place + 8 * (end - begin)
            self.memory[place:last].view(kind)[:] = column[begin:end]
            return [(place, last)]
        ends = column.ends[begin : end + 1]
        data = np.frombuffer(column.data, np.uint8)[ends[0] : ends[-1]]
        bytes_place = self.layout.places[f"bytes {name}"]
        last = place + 4 * len(ends)
        self.memory[place:last].view(np.int32)[:] = ends - ends[0]
        self.memory[bytes_place : bytes_place + len(data)] = data
        return [(place, last), (bytes_place, bytes_place + len(data))]
