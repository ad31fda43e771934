"""Checked program of a mapper: a typed tree that both executors run.

    kind     value                                          a missing value is
    number   IEEE double                                    NaN
    text     bytes of UTF-8, at most MAX_TEXT_BYTES         empty
    time     whole microseconds of local time, as a double  NaN
    bool     true or false                                  false

**Steps.** A block of statements costs its statements, operators and calls when it is entered, without those of nested
blocks. Each turn of a loop costs one more than its test. A built-in of texts costs the bytes that it reads, as its
function in `interpreter` counts them. A record whose program costs more than `max_steps` has no pairs.

Privacy
    The tree has no state, clock, chance or output but `emit`. So pairs are a function of the program and one record.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Literal

MAX_TEXT_BYTES = 4096
FRAMES_PER_OPERATION, FRAMES_PER_BLOCK = 3, 5  # of Python, in `compiler` and `interpreter`
ValueKind = Literal["number", "text", "bool", "time"]
Constant = float | bytes | bool | str


@dataclass(frozen=True)
class Operation:
    """Typed expression: an operator or built-in with its operands.

    `constant`, `local` and `inline` have no operands: a value, a name, and the body of a helper function.
    """

    name: str
    kind: ValueKind
    operands: tuple["Operation", ...] = ()
    value: Constant = ""
    body: "StatementBlock | None" = None  # of `inline`, which `value` labels

    @cached_property
    def cost(self) -> int:
        """Steps that the containing block pays for it."""
        return (self.name not in ("constant", "local")) + sum(each.cost for each in self.operands)

    @cached_property
    def depth(self) -> int:
        """The most call frames that a function over the tree needs below this operation."""
        inner = [each.depth for each in self.operands] + ([self.body.depth] if self.body is not None else [])
        return FRAMES_PER_OPERATION + max(inner, default=0)


@dataclass(frozen=True)
class Assignment:
    target: str
    value: Operation


@dataclass(frozen=True)
class Emission:
    """emit(key, value). The key is an index of a declared key, or text or a number to look up."""

    key: "int | Operation"
    value: Operation


@dataclass(frozen=True)
class Branch:
    test: Operation
    body: "StatementBlock"
    orelse: "StatementBlock"


@dataclass(frozen=True)
class TestLoop:
    """while test"""

    test: Operation
    body: "StatementBlock"


@dataclass(frozen=True)
class RangeLoop:
    """for target in range(first, end)"""

    target: str
    first: Operation
    end: Operation
    body: "StatementBlock"


@dataclass(frozen=True)
class PartLoop:
    """for target in text.split(separator). An empty separator means runs of ASCII white space."""

    target: str
    text: Operation
    separator: bytes
    body: "StatementBlock"


@dataclass(frozen=True)
class Inlining:
    """Call of a helper function without a value."""

    label: str
    body: "StatementBlock"


@dataclass(frozen=True)
class Exit:
    """return, break or continue. A return inside a helper function has its label."""

    kind: Literal["return", "break", "continue"]
    label: str = ""
    value: Operation | None = None


Statement = Assignment | Emission | Branch | TestLoop | RangeLoop | PartLoop | Inlining | Exit


@dataclass(frozen=True)
class StatementBlock:
    statements: tuple[Statement, ...]

    @cached_property
    def cost(self) -> int:
        """Steps of entering the block."""
        return sum(1 + sum(each.cost for each in list_operands(statement)) for statement in self.statements)

    @cached_property
    def depth(self) -> int:
        """The most call frames that a function over the tree needs below this block."""
        values = [getattr(statement, each.name) for statement in self.statements for each in fields(statement)]
        inner = [each.depth for each in values if isinstance(each, Operation | StatementBlock)]
        return FRAMES_PER_BLOCK + max(inner, default=0)

    @cached_property
    def size(self) -> int:
        """Number of its statements and operations, with all that is nested."""
        return self.cost + sum(block.size for statement in self.statements for block in iterate_blocks(statement))


def list_operands(statement: Statement) -> list[Operation]:
    """Return the expressions that a statement evaluates once. The test of a loop is not one of them."""
    if isinstance(statement, TestLoop):
        return []
    found = [getattr(statement, each.name) for each in fields(statement)]
    return [each for each in found if isinstance(each, Operation)]


def iterate_blocks(statement: Statement) -> Iterator[StatementBlock]:
    """Yield the blocks nested in a statement, and in its expressions."""
    for each in fields(statement):
        value = getattr(statement, each.name)
        if isinstance(value, StatementBlock):
            yield value
        elif isinstance(value, Operation):
            yield from _iterate_bodies(value)


def _iterate_bodies(operation: Operation) -> Iterator[StatementBlock]:
    if operation.body is not None:
        yield operation.body
    for each in operation.operands:
        yield from _iterate_bodies(each)


@dataclass(frozen=True)
class MapperProgram:
    """Checked program: its columns with their kinds, its declared keys and its body."""

    columns: tuple[tuple[str, ValueKind], ...]
    keys: tuple[bytes, ...] | tuple[float, ...]
    max_pairs: int
    max_steps: int
    body: StatementBlock

    @cached_property
    def key_places(self) -> dict[Constant, int]:
        """Index of each key."""
        keys: tuple[Constant, ...] = self.keys
        return {key: place for place, key in enumerate(keys)}

    @property
    def has_text_keys(self) -> bool:
        return isinstance(self.keys[0], bytes)
