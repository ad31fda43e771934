"""Interpreter of mappers: the definition of the language, one record at a time.

It is slow. `executor` runs the same program compiled, and gives the same pairs to the bit.

    >>> from streamgauge.mapreduce.parser import parse_mapper
    >>> source = '''
    ... def mapper(line):
    ...     for word in line.split():
    ...         emit(word, 1)
    ... '''
    >>> program = parse_mapper(source, {"line": "text"}, ["dog", "cat"], max_pairs=2, max_steps=1000)
    >>> run_record(program, {"line": b"a dog, a dog, a cat dog"}).pairs
    ((1, 1.0), (0, 1.0))
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite

from streamgauge.mapreduce import text_rules as rules
from streamgauge.mapreduce.program import (
    MAX_TEXT_BYTES,
    Assignment,
    Branch,
    Constant,
    Emission,
    Exit,
    Inlining,
    MapperProgram,
    Operation,
    PartLoop,
    RangeLoop,
    Statement,
    StatementBlock,
    TestLoop,
)

ARENA_BYTES = 2**16  # of texts that lower() and upper() make for one record


@dataclass(frozen=True)
class RecordPairs:
    """Pairs of one record, by index of the key, and the steps that were counted."""

    pairs: tuple[tuple[int, float], ...]
    steps: int


class StepsExhaustedError(Exception):
    """The record needs more steps or memory than it may."""


class _LeaveBlockError(Exception):
    """Control flow: return, break or continue."""

    def __init__(self, exit_: Exit, value: Constant | None) -> None:
        super().__init__()
        self.exit, self.value = exit_, value


def run_record(program: MapperProgram, record: Mapping[str, Constant]) -> RecordPairs:
    """Return the pairs of one record: at most `max_pairs` keys, in order of their first emission.

    Values of one key are added up. Undeclared keys, and values that are not finite, are dropped. A record without
    enough steps, or with an index outside of its text, has no pairs.
    """
    run = _RecordRun(program)
    for name, kind in program.columns:
        value = record[name]
        run.locals[name] = value[:MAX_TEXT_BYTES] if kind == "text" and isinstance(value, bytes) else value
    try:
        run.run_block(program.body)
    except _LeaveBlockError:
        pass
    except (StepsExhaustedError, IndexError):
        return RecordPairs((), run.steps)
    return RecordPairs(tuple((key, value) for key, value in run.sums.items() if isfinite(value)), run.steps)


@dataclass
class _RecordRun:
    program: MapperProgram
    locals: dict[str, Constant] = field(default_factory=dict)
    sums: dict[int, float] = field(default_factory=dict)
    steps: int = 0
    arena: int = 0

    def charge(self, steps: int) -> None:
        self.steps += steps
        if self.steps > self.program.max_steps:
            raise StepsExhaustedError

    def run_block(self, block: StatementBlock) -> None:
        self.charge(block.cost)
        for statement in block.statements:
            self.run_statement(statement)

    def run_statement(self, statement: Statement) -> None:
        match statement:
            case Assignment():
                self.locals[statement.target] = self.evaluate(statement.value)
            case Emission():
                self.emit(statement)
            case Branch():
                self.run_block(statement.body if self.evaluate(statement.test) else statement.orelse)
            case Inlining():
                self.run_inlined(statement.label, statement.body)
            case Exit():
                raise _LeaveBlockError(statement, None if statement.value is None else self.evaluate(statement.value))
            case _:
                self.run_loop(statement)

    def run_loop(self, loop: TestLoop | RangeLoop | PartLoop) -> None:
        for _ in self.iterate(loop):
            try:
                self.run_block(loop.body)
            except _LeaveBlockError as signal:
                if signal.exit.kind == "return":
                    raise
                if signal.exit.kind == "break":
                    return

    def iterate(self, loop: TestLoop | RangeLoop | PartLoop) -> Iterator[None]:
        """Yield once for each turn, after its steps were charged and its target was assigned."""
        if isinstance(loop, TestLoop):
            self.charge(1 + loop.test.cost)
            while self.evaluate(loop.test):
                yield
                self.charge(1 + loop.test.cost)
        elif isinstance(loop, RangeLoop):
            number, end = self.number(loop.first), self.number(loop.end)
            self.charge(1)
            while number < end:
                self.locals[loop.target] = number
                yield
                number += 1
                self.charge(1)
        else:
            text, begin = self.text(loop.text), 0
            self.charge(1)
            while (found := rules.next_part(text, loop.separator, begin, self.charge)) is not None:
                self.locals[loop.target], begin = text[found[0] : found[1]], found[2]
                yield
                self.charge(1)

    def run_inlined(self, label: str, body: StatementBlock) -> Constant | None:
        try:
            self.run_block(body)
        except _LeaveBlockError as signal:
            if signal.exit.kind != "return" or signal.exit.label != label:
                raise
            return signal.value
        return None

    def emit(self, statement: Emission) -> None:
        if isinstance(statement.key, int):
            key: int | None = statement.key
        else:
            found = self.evaluate(statement.key)
            self.charge(len(self.program.keys).bit_length() + (len(found) if isinstance(found, bytes) else 0))
            key = self.program.key_places.get(found)
        value = self.number(statement.value)
        if key is None or not isfinite(value):
            return
        if key in self.sums:
            self.sums[key] += value
        elif len(self.sums) < self.program.max_pairs:
            self.sums[key] = value

    def number(self, operation: Operation) -> float:
        return float(self.evaluate(operation))

    def text(self, operation: Operation) -> bytes:
        value = self.evaluate(operation)
        return value if isinstance(value, bytes) else b""

    def evaluate(self, operation: Operation) -> Constant:
        name, operands = operation.name, operation.operands
        match name:
            case "constant":
                return operation.value
            case "local":
                return self.locals[str(operation.value)]
            case "inline":
                value = None if operation.body is None else self.run_inlined(str(operation.value), operation.body)
                return 0.0 if value is None else value
            case "and":
                return bool(self.evaluate(operands[0])) and bool(self.evaluate(operands[1]))
            case "or":
                return bool(self.evaluate(operands[0])) or bool(self.evaluate(operands[1]))
            case "choose":
                return self.evaluate(operands[1] if self.evaluate(operands[0]) else operands[2])
            case "not":
                return not self.evaluate(operands[0])
        if name in rules.NUMBER_FUNCTIONS:
            return rules.NUMBER_FUNCTIONS[name](*map(self.number, operands))
        if name in rules.COMPARISON_FUNCTIONS:
            return rules.COMPARISON_FUNCTIONS[name](*map(self.number, operands))
        return self.evaluate_text(name, operands)

    def evaluate_text(self, name: str, operands: tuple[Operation, ...]) -> Constant:
        text = self.text(operands[0])
        others = [self.evaluate(each) for each in operands[1:]]
        match name, *others:
            case ("len",):
                return float(len(text))
            case ("number",):
                return rules.to_number(text, self.charge)
            case ("lower" | "upper",):
                return self.change_case(name, text)
            case ("strip",):
                self.charge(len(text))
                return text.strip(rules.SPACES)
            case "same", bytes() as part:
                return rules.is_same(text, part, self.charge)
            case "startswith", bytes() as part:
                return rules.starts_with(text, part, self.charge)
            case "endswith", bytes() as part:
                return rules.ends_with(text, part, self.charge)
            case "find", bytes() as part:
                return float(rules.find_part(text, part, 0, self.charge))
            case "character", float() as number:
                return rules.select_character(text, number)
            case "slice", float() as lower, float() as upper:
                return rules.slice_text(text, lower, upper)
            case "part", bytes() as separator, float() as number:
                return rules.select_part(text, separator, number, self.charge)
        raise AssertionError(f"operation without a meaning: {name}")

    def change_case(self, name: str, text: bytes) -> bytes:
        self.charge(len(text))
        self.arena += len(text)
        if self.arena > ARENA_BYTES:
            raise StepsExhaustedError
        return text.lower() if name == "lower" else text.upper()
