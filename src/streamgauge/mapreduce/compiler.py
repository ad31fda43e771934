"""Compiler of mappers: from a checked program to WebAssembly text.

    $record    one record: its columns as parameters, its steps and pairs in globals
    run        the loop over a batch: the same memory and steps before each record, then its pairs are copied

The module imports nothing. Its memory has a fixed size.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from streamgauge.mapreduce.interpreter import ARENA_BYTES
from streamgauge.mapreduce.memory_layout import MemoryLayout
from streamgauge.mapreduce.program import (
    Assignment,
    Branch,
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
    ValueKind,
)
from streamgauge.mapreduce.wat_library import LIBRARY, RUN

TYPES: dict[str, tuple[str, ...]] = {"number": ("f64",), "time": ("f64",), "bool": ("i32",), "text": ("i32", "i32")}
INSTRUCTIONS = {
    **{"+": "f64.add", "-": "f64.sub", "*": "f64.mul", "/": "f64.div", "neg": "f64.neg", "abs": "f64.abs"},
    **{"floor": "f64.floor", "ceil": "f64.ceil", "int": "f64.trunc", "sqrt": "f64.sqrt", "not": "i32.eqz"},
    **{"<": "f64.lt", "<=": "f64.le", ">": "f64.gt", ">=": "f64.ge", "==": "f64.eq", "!=": "f64.ne"},
    **{"//": "call $floor_divide", "%": "call $modulo"},
}
RETURN_IF_EXHAUSTED = ["global.get $steps", "i32.const 0", "i32.lt_s", "if", "return", "end"]


def compile_program(program: MapperProgram, layout: MemoryLayout) -> str:
    """Return the module of a program as WebAssembly text."""
    function = FunctionCompiler(layout)
    parameters = [function.declare(name, kind) for name, kind in program.columns]
    body = function.compile_block(program.body)
    loads = "".join(build_load(layout, name, kind) for name, kind in program.columns)
    known = {**layout.places, "arena_bytes": ARENA_BYTES, "max_pairs": program.max_pairs}
    of_parameters = [f"(param {each} {type_})" for names in parameters for each, type_ in names]
    taken = {each for names in parameters for each, _ in names}
    of_locals = [f"(local {name} {type_})" for name, type_ in function.locals.items() if name not in taken]
    record = "\n".join([f"(func $record {' '.join(of_parameters)}", *of_locals, *body, ")"])
    data = "\n".join(f'(data (i32.const {place}) "{escape_bytes(bytes_)}")' for place, bytes_ in layout.data)
    memory = f'(memory (export "memory") {layout.pages} {layout.pages})'
    library = LIBRARY.format(**known)
    run = RUN.format(arguments=loads, **known)
    return f"(module\n{memory}\n{data}\n{library}\n{record}\n{run})\n"


def build_load(layout: MemoryLayout, name: str, kind: ValueKind) -> str:
    """Return the arguments of $record for one column."""
    place = layout.places[f"column {name}"]
    if kind in ("number", "time"):
        return f"(f64.load offset={place} (i32.shl (local.get $i) (i32.const 3)))"
    if kind == "bool":
        return f"(i32.load offset={place} (i32.shl (local.get $i) (i32.const 3)))"
    begin, end = (f"(i32.load offset={place + more} (i32.shl (local.get $i) (i32.const 2)))" for more in (0, 4))
    address = f"(i32.add (i32.const {layout.places[f'bytes {name}']}) {begin})"
    return f"{address} (i32.sub {end} {begin})"


def escape_bytes(data: bytes) -> str:
    return "".join(f"\\{byte:02x}" for byte in data)


def format_double(value: float) -> str:
    """Return a constant with exactly these bits."""
    bits = struct.unpack("<q", struct.pack("<d", value))[0]
    return f"i64.const {bits}\nf64.reinterpret_i64"


@dataclass
class FunctionCompiler:
    """Compiler of `$record`. Values are on the stack; a text is two of them."""

    layout: MemoryLayout
    locals: dict[str, str] = field(default_factory=dict)  # type by name
    names: dict[str, str] = field(default_factory=dict)
    results: dict[str, tuple[str, ValueKind]] = field(default_factory=dict)  # local of an inlined call, by label
    loops: list[int] = field(default_factory=list)  # numbers of the loops around a statement
    labels: int = 0

    def declare(self, name: str, kind: ValueKind) -> list[tuple[str, str]]:
        """Return the locals of a name, with their types."""
        own = self.names.setdefault(name, f"$v{len(self.names)}")
        found = [(own if place == 0 else f"{own}_length", type_) for place, type_ in enumerate(TYPES[kind])]
        self.locals.update(found)
        return found

    def store(self, name: str, kind: ValueKind) -> list[str]:
        return [f"local.set {local}" for local, _ in reversed(self.declare(name, kind))]

    def load(self, name: str, kind: ValueKind) -> list[str]:
        return [f"local.get {local}" for local, _ in self.declare(name, kind)]

    def count_label(self) -> int:
        self.labels += 1
        return self.labels

    def charge(self, steps: int) -> list[str]:
        if not steps:
            return []
        spend = ["global.get $steps", f"i32.const {steps}", "i32.sub", "global.set $steps"]
        left = ["global.get $steps", "i32.const 0", "i32.lt_s"]
        return [*spend, *left, "if", f"i32.const {steps}", "call $exhaust", "return", "end"]

    def compile_block(self, block: StatementBlock) -> list[str]:
        return [*self.charge(block.cost), *(line for each in block.statements for line in self.compile_statement(each))]

    def compile_statement(self, statement: Statement) -> list[str]:
        match statement:
            case Assignment():
                return [*self.compile(statement.value), *self.store(statement.target, statement.value.kind)]
            case Emission():
                return [*self.compile_key(statement.key), *self.compile(statement.value), "call $emit"]
            case Branch():
                body, orelse = self.compile_block(statement.body), self.compile_block(statement.orelse)
                return [*self.compile(statement.test), "if", *body, "else", *orelse, "end"]
            case Inlining():
                return self.compile_inlined(statement.label, statement.body)
            case Exit():
                return self.compile_exit(statement)
            case TestLoop():
                test = [*self.charge(1 + statement.test.cost), *self.compile(statement.test), "i32.eqz"]
                return self.compile_loop(statement.body, test)
            case RangeLoop():
                return self.compile_range(statement)
            case PartLoop():
                return self.compile_parts(statement)

    def compile_loop(
        self, body: StatementBlock, is_done: list[str], enter: Sequence[str] = (), advance: Sequence[str] = ()
    ) -> list[str]:
        """Return a loop.

        `is_done` leaves 1 on the stack after the last turn. `enter` runs before each turn, `advance` after it.
        """
        number = self.count_label()
        self.loops.append(number)
        inner = self.compile_block(body)
        self.loops.pop()
        turn = [*enter, f"block $continue{number}", *inner, "end", *advance, f"br $loop{number}"]
        return [f"block $break{number}", f"loop $loop{number}", *is_done, f"br_if $break{number}", *turn, "end", "end"]

    def compile_range(self, loop: RangeLoop) -> list[str]:
        number = self.count_label()
        counter, end = f"counter {number}", f"end {number}"
        begin = [*self.compile(loop.first), *self.compile(loop.end), *self.store(end, "number")]
        begin += self.store(counter, "number")
        test = [*self.charge(1), *self.load(counter, "number"), *self.load(end, "number"), "f64.lt", "i32.eqz"]
        enter = [*self.load(counter, "number"), *self.store(loop.target, "number")]
        advance = [*self.load(counter, "number"), "f64.const 1", "f64.add", *self.store(counter, "number")]
        return [*begin, *self.compile_loop(loop.body, test, enter, advance)]

    def compile_parts(self, loop: PartLoop) -> list[str]:
        number = self.count_label()
        text, place, first, end = (f"{name} {number}" for name in ("text", "place", "first", "end"))
        begin = [*self.compile(loop.text), *self.store(text, "text"), "i32.const 0", *self.store(place, "bool")]
        test = [
            *self.charge(1),
            *self.load(text, "text"),
            *self.compile_text(loop.separator),
            *self.load(place, "bool"),
        ]
        test += ["call $next_part", *self.store(place, "bool"), *self.store(end, "bool"), *self.store(first, "bool")]
        test += [*RETURN_IF_EXHAUSTED, *self.load(first, "bool"), "i32.const 0", "i32.lt_s"]
        enter = [self.load(text, "text")[0], *self.load(first, "bool"), "i32.add"]
        enter += [*self.load(end, "bool"), *self.load(first, "bool"), "i32.sub", *self.store(loop.target, "text")]
        return [*begin, *self.compile_loop(loop.body, test, enter)]

    def compile_exit(self, statement: Exit) -> list[str]:
        if statement.kind != "return":
            return [f"br ${statement.kind}{self.loops[-1]}"]
        if not statement.label:
            return ["return"]
        value: list[str] = []
        if statement.value is not None:
            value = [*self.compile(statement.value), *self.store(f"result {statement.label}", statement.value.kind)]
        return [*value, f"br $inline{statement.label}"]

    def compile_inlined(self, label: str, body: StatementBlock) -> list[str]:
        loops, self.loops = self.loops, []
        found = [f"block $inline{label}", *self.compile_block(body), "end"]
        self.loops = loops
        return found

    def compile_key(self, key: int | Operation) -> list[str]:
        if isinstance(key, int):
            return [f"i32.const {key}"]
        return [*self.compile(key), "call $find_text_key" if key.kind == "text" else "call $find_number_key"]

    def compile_text(self, text: bytes) -> list[str]:
        return [f"i32.const {self.layout.literals[text]}", f"i32.const {len(text)}"]

    def compile(self, operation: Operation) -> list[str]:
        """Return the instructions that leave the value of an expression on the stack."""
        operands = [self.compile(each) for each in operation.operands]
        match operation.name:
            case "constant":
                return self.compile_constant(operation)
            case "local":
                return self.load(str(operation.value), operation.kind)
            case "inline" if operation.body is not None:
                label = str(operation.value)
                return [*self.compile_inlined(label, operation.body), *self.load(f"result {label}", operation.kind)]
            case "and":
                return [*operands[0], "if (result i32)", *operands[1], "else", "i32.const 0", "end"]
            case "or":
                return [*operands[0], "if (result i32)", "i32.const 1", "else", *operands[1], "end"]
            case "choose":
                result = f"if (result {' '.join(TYPES[operation.kind])})"
                return [*operands[0], result, *operands[1], "else", *operands[2], "end"]
            case "len":
                length = f"length {self.count_label()}"
                return [
                    *operands[0],
                    *self.store(length, "bool"),
                    "drop",
                    *self.load(length, "bool"),
                    "f64.convert_i32_s",
                ]
        instruction = INSTRUCTIONS.get(operation.name, f"call ${operation.name}")
        return [*(line for lines in operands for line in lines), instruction]

    def compile_constant(self, operation: Operation) -> list[str]:
        if isinstance(operation.value, bytes):
            return self.compile_text(operation.value)
        if isinstance(operation.value, bool):
            return [f"i32.const {int(operation.value)}"]
        return [format_double(float(operation.value))]
