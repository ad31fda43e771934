"""Memory of a compiled mapper: literals and keys, one record's pairs, the columns of a batch, its pairs.

All places and sizes are fixed when the mapper is compiled. So no batch makes memory grow.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from streamgauge.mapreduce.interpreter import ARENA_BYTES
from streamgauge.mapreduce.program import Constant, MapperProgram, Operation, PartLoop, iterate_blocks, list_operands
from streamgauge.mapreduce.text_rules import POWERS_OF_TEN

MAX_BATCH_PAIRS = 2**20
MAX_BATCH_RECORDS = 8192
MAX_BATCH_STEPS = 2**28  # of all records: a batch cannot be interrupted
TEXT_BATCH_BYTES = 2**22  # of one column; a record fits always
PAGE_BYTES = 2**16


@dataclass
class MemoryLayout:
    """Addresses by name, and the bytes that are there from the start."""

    program: MapperProgram
    places: dict[str, int] = field(default_factory=dict)
    literals: dict[bytes, int] = field(default_factory=dict)
    data: list[tuple[int, bytes]] = field(default_factory=list)
    end: int = 0

    def __post_init__(self) -> None:
        self._add("powers", struct.pack("<23d", *POWERS_OF_TEN))  # at 0, where $number reads them
        for literal in dict.fromkeys(iterate_literals(self.program)):
            self.literals[literal] = self._add("", literal)
        self._add_keys()
        pairs, records = self.program.max_pairs, self.max_records
        for name, size in (
            ("slots", 4 * len(self.program.keys)),
            ("pair_keys", 4 * pairs + 4),
            ("sums", 8 * pairs + 8),
        ):
            self._reserve(name, size)
        self._reserve("arena", ARENA_BYTES)
        for name, kind in self.program.columns:
            self._reserve(f"column {name}", 4 * (records + 1) if kind == "text" else 8 * records)
            if kind == "text":
                self._reserve(f"bytes {name}", TEXT_BATCH_BYTES)
        for name, size in (("out_records", 4), ("out_keys", 4), ("out_values", 8)):
            self._reserve(name, size * records * pairs)

    @cached_property
    def max_records(self) -> int:
        """Records of a batch."""
        program = self.program
        return max(
            1, min(MAX_BATCH_RECORDS, MAX_BATCH_PAIRS // program.max_pairs, MAX_BATCH_STEPS // program.max_steps)
        )

    @property
    def pages(self) -> int:
        return -(-self.end // PAGE_BYTES)

    def _reserve(self, name: str, size: int) -> int:
        place = -(-self.end // 8) * 8
        self.places[name], self.end = place, place + size
        return place

    def _add(self, name: str, data: bytes) -> int:
        place = self._reserve(name, len(data))
        if data:
            self.data.append((place, data))
        return place

    def _add_keys(self) -> None:
        """Add the sorted table of keys, in which a search takes as many turns for any key."""
        ordered = sorted((key, place) for place, key in enumerate(self.program.keys))
        texts = [key for key, _ in ordered if isinstance(key, bytes)]
        numbers = [key for key, _ in ordered if isinstance(key, float)]
        places = [self._add("", text) for text in texts]
        self.places["key_count"], self.places["key_bits"] = len(ordered), len(ordered).bit_length()
        self._add("key_places", struct.pack(f"<{len(places)}i", *places))
        self._add("key_lengths", struct.pack(f"<{len(texts)}i", *map(len, texts)))
        self._add("key_numbers", struct.pack(f"<{len(numbers)}d", *numbers))
        self._add("key_order", struct.pack(f"<{len(ordered)}i", *(place for _, place in ordered)))


def iterate_literals(program: MapperProgram) -> Iterator[bytes]:
    """Yield all texts that a program contains."""
    yield from (constant for constant in iterate_constants(program) if isinstance(constant, bytes))


def iterate_constants(program: MapperProgram) -> Iterator[Constant]:
    """Yield all constants that a program contains, with the separators of its splits."""
    blocks = [program.body]
    while blocks:
        block = blocks.pop()
        for statement in block.statements:
            blocks.extend(iterate_blocks(statement))
            if isinstance(statement, PartLoop):
                yield statement.separator
            for operation in [*list_operands(statement), *_list_tests(statement)]:
                yield from _iterate_operation_constants(operation)


def _list_tests(statement: object) -> list[Operation]:
    test = getattr(statement, "test", None)
    return [test] if isinstance(test, Operation) else []


def _iterate_operation_constants(operation: Operation) -> Iterator[Constant]:
    if operation.name == "constant":
        yield operation.value
    for each in operation.operands:
        yield from _iterate_operation_constants(each)
