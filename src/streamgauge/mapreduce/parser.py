"""Sources of mappers: from Python text to a checked program, or a refusal with its line.

    def mapper(url, seconds):
        if url.startswith("/news"):
            emit("news", seconds)

One function has the name `mapper`, with a parameter for each column. Other functions are inlined where they are
called. A function cannot call itself, so every program is a tree with loops, and its steps can be counted.
"""

import ast
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from streamgauge.mapreduce.errors import MapperError, build_refusal
from streamgauge.mapreduce.expressions import ARITHMETIC, ExpressionParser, build_constant, encode_literal
from streamgauge.mapreduce.program import (
    FRAMES_PER_BLOCK,
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
    ValueKind,
)

MAPPER_NAME = "mapper"
MAX_SOURCE_BYTES = 2**16
MAX_NODES = 5_000  # with inlined functions; to compile them may take some seconds, and 0.3 GB
MAX_KEYS, MAX_PAIRS, MAX_STEPS = 2**16, 1024, 10**8
MAX_FRAMES = 700  # of the call stack, which has 1,000: the same program is accepted by every thread
FRAMES_PER_PARSE = 5  # of an expression in an expression, while it is parsed
BUILT_INS = frozenset({"abs", "ceil", "emit", "floor", "int", "len", "max", "min", "number", "range", "sqrt"})
STATEMENT_HINTS: dict[type[ast.AST], str] = {
    ast.Import: "the function itself: nothing can be imported",
    ast.ImportFrom: "the function itself: nothing can be imported",
    ast.Global: "a name of the function: no value outlives a record",
    ast.Nonlocal: "a name of the function: no value outlives a record",
    ast.Try: "an if before it: what fails gives no pairs",
    ast.With: "its body alone",
    ast.ClassDef: "a def",
    ast.Delete: "nothing: names need not be deleted",
    ast.Raise: "return",
    ast.Assert: "if not ...: return",
    ast.Match: "if and elif",
}


def parse_mapper(
    source: str, columns: Mapping[str, ValueKind], keys: Sequence[str | int], *, max_pairs: int = 1, max_steps: int
) -> MapperProgram:
    """Return the checked program of a mapper.

    Args:
        columns: The kind of each column that the parameters of `mapper` may name.

    Raises:
        MapperError: The source is outside of the language, or a setting is. It names the line.
    """
    known = _check_settings(keys, max_pairs, max_steps)
    functions = _parse_functions(source)
    mapper = functions.pop(MAPPER_NAME, None)
    if mapper is None:
        raise MapperError("source must define mapper", "none", 1, "def mapper(column, ...):")
    names = _list_parameters(mapper)
    if not names:
        raise build_refusal(mapper, "mapper must have one or more columns", "none", f"def mapper({min(columns)}):")
    for name in names:
        if name not in columns:
            listed = ", ".join(sorted(columns))
            raise build_refusal(mapper, f"parameters of mapper must be columns ({listed})", name)
    kinds = {name: columns[name] for name in names}
    try:
        labels: tuple[Constant, ...] = known
        places = {key: place for place, key in enumerate(labels)}
        parser = FunctionParser(functions, places, dict(kinds))
        body = parser.parse_block(mapper.body)
    except RecursionError:
        raise build_refusal(mapper, "the program must be nested less deeply", "deeper nesting") from None
    return MapperProgram(tuple(kinds.items()), known, max_pairs, max_steps, body)


def _check_settings(keys: Sequence[str | int], max_pairs: int, max_steps: int) -> tuple[bytes, ...] | tuple[float, ...]:
    for name, value, most in (("max_pairs", max_pairs, MAX_PAIRS), ("max_steps", max_steps, MAX_STEPS)):
        if type(value) is not int or not 1 <= value <= most:
            raise MapperError(f"{name} must be a whole number from 1 to {most:,}", repr(value))
    listed = list(keys) if not isinstance(keys, str | bytes) else []
    if not 0 < len(listed) <= MAX_KEYS or len(set(listed)) < len(listed):
        raise MapperError(f"keys must be 1 to {MAX_KEYS:,} different labels", f"{len(listed)}")
    if all(type(key) is str for key in listed):
        return tuple(encode_literal(ast.Constant(key), str(key)) for key in listed)
    if all(type(key) is int and abs(key) < 2**53 for key in listed):
        return tuple(float(key) for key in listed)
    raise MapperError("keys must be texts, or whole numbers below 2^53", "others")


def _parse_functions(source: str) -> dict[str, ast.FunctionDef]:
    if len(source) > MAX_SOURCE_BYTES:
        raise MapperError(f"source must have at most {MAX_SOURCE_BYTES:,} characters", f"{len(source):,}")
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise MapperError("source must be Python", error.msg, error.lineno) from None
    except (ValueError, MemoryError, RecursionError):
        raise MapperError("source must be Python that is not nested so deeply", "another text", 1) from None
    found: dict[str, ast.FunctionDef] = {}
    for node in tree.body:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            continue  # a docstring
        if not isinstance(node, ast.FunctionDef) or node.decorator_list:
            hint = STATEMENT_HINTS.get(type(node), "it inside of def mapper(...):")
            raise build_refusal(node, "source must have functions only", hint=hint)
        if node.name in found or node.name in BUILT_INS:
            raise build_refusal(node, "functions must have different names, and none of a built-in", node.name)
        found[node.name] = node
    return found


def _list_parameters(function: ast.FunctionDef) -> list[str]:
    arguments = function.args
    others = [*arguments.posonlyargs, *arguments.kwonlyargs, *arguments.defaults, arguments.vararg, arguments.kwarg]
    names = [each.arg for each in arguments.args]
    if any(others) or len(set(names)) < len(names):
        raise build_refusal(function, "parameters must be different plain names", hint=f"def {function.name}(a, b):")
    return names


@dataclass
class FunctionParser:
    """Parser of the statements of one function, in the place where it is inlined."""

    functions: Mapping[str, ast.FunctionDef]
    keys: Mapping[Constant, int]  # index of each key
    kinds: dict[str, ValueKind]  # of the names that surely have a value here
    label: str = ""  # of the inlined call; empty for the mapper
    callers: tuple[str, ...] = (MAPPER_NAME,)
    counts: Counter[str] = field(default_factory=Counter)  # of the whole program: nodes, calls, and frames now
    declared: dict[str, ValueKind] = field(default_factory=dict)  # of all names so far
    returned: list[ValueKind] = field(default_factory=list)
    emits: bool = False
    loops: int = 0

    def __post_init__(self) -> None:
        self.declared |= self.kinds
        self.expressions = ExpressionParser(
            self.kinds, self.rename, self.parse_call, self.count, self.enter, self.leave
        )

    def count(self, node: ast.AST) -> None:
        self.counts["nodes"] += 1
        if self.counts["nodes"] > MAX_NODES:
            rule = f"the program must have at most {MAX_NODES:,} operations, with its inlined functions"
            raise build_refusal(node, rule, "more")

    def enter(self, frames: int = FRAMES_PER_PARSE) -> None:
        self.counts["frames"] += frames

    def leave(self, node: ast.AST, found: Operation | StatementBlock, frames: int = FRAMES_PER_PARSE) -> None:
        """Reject a program that a function over its tree could not walk."""
        if self.counts["frames"] + found.depth > MAX_FRAMES:
            rule = "the program must be nested less deeply"
            raise build_refusal(node, rule, "deeper nesting", "several statements, or fewer blocks in blocks")
        self.counts["frames"] -= frames

    def rename(self, name: str) -> str:
        """Return the name of a local of the whole program."""
        return f"{name}{self.label}"

    def parse_block(self, nodes: Sequence[ast.stmt]) -> StatementBlock:
        if not nodes:
            return StatementBlock(())
        self.enter(FRAMES_PER_BLOCK)
        if self.counts["frames"] > MAX_FRAMES:
            raise build_refusal(nodes[0], "blocks must be nested less deeply", "deeper nesting", "fewer elif, or a def")
        found: list[Statement] = []
        for place, node in enumerate(nodes):
            self.count(node)
            docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            if isinstance(node, ast.Pass) or (docstring and place == 0):
                continue
            found.extend(self.parse_statement(node))
        block = StatementBlock(tuple(found))
        self.leave(nodes[0], block, FRAMES_PER_BLOCK)
        return block

    def parse_statement(self, node: ast.stmt) -> list[Statement]:
        match node:
            case ast.Assign(targets=[ast.Name() as target], value=value):
                return [self.assign(target, self.expressions.parse(value))]
            case ast.AnnAssign(target=ast.Name() as target, value=ast.expr() as value):
                return [self.assign(target, self.expressions.parse(value))]
            case ast.AugAssign(target=ast.Name() as target):
                loaded = ast.copy_location(ast.Name(target.id, ast.Load()), node)
                changed = ast.copy_location(ast.BinOp(loaded, node.op, node.value), node)
                if type(node.op) not in ARITHMETIC:
                    raise build_refusal(node, "operators must be + - * / // %")
                return [self.assign(target, self.expressions.parse(changed, "number"))]
            case ast.If():
                return [self.parse_branch(node)]
            case ast.While(orelse=[]):
                test = self.expressions.parse(node.test, "bool")
                return [TestLoop(test, self.parse_loop_body(node.body))]
            case ast.For(orelse=[], target=ast.Name() as target):
                return [self.parse_for(node, target)]
            case ast.Expr(value=ast.Call() as call):
                return [self.parse_call_statement(call)]
            case ast.Return():
                return [self.parse_return(node)]
            case ast.Break() | ast.Continue():
                if not self.loops:
                    raise build_refusal(node, "break and continue must be inside of a loop", hint="return")
                return [Exit("break" if isinstance(node, ast.Break) else "continue")]
        hint = STATEMENT_HINTS.get(type(node), "name = value, if, while, for, emit(key, value) or return")
        raise build_refusal(node, "statements must be those of the mapper language", hint=hint)

    def assign(self, target: ast.Name, value: Operation) -> Assignment:
        return Assignment(self.declare(target, value.kind), value)

    def declare(self, target: ast.Name, kind: ValueKind) -> str:
        """Return the local of an assigned name; reject another kind than before."""
        name = target.id
        if name in self.functions or name in BUILT_INS or name == MAPPER_NAME:
            raise build_refusal(target, "names must not be those of functions", name, f"{name}_ = ...")
        if self.declared.setdefault(name, kind) != kind:
            raise build_refusal(target, f"{name} must stay a {self.declared[name]}", f"a {kind}", "another name")
        self.kinds[name] = kind
        return self.rename(name)

    def parse_branch(self, node: ast.If) -> Branch:
        test = self.expressions.parse(node.test, "bool")
        before = dict(self.kinds)
        body = self.parse_block(node.body)
        after_body = dict(self.kinds)
        self.reset_kinds(before)
        orelse = self.parse_block(node.orelse)
        sides = [kinds for nodes, kinds in ((node.body, after_body), (node.orelse, self.kinds)) if not leaves(nodes)]
        known = [name for name in self.declared if all(name in kinds for kinds in sides)] if sides else before
        self.reset_kinds({name: self.declared[name] for name in known})
        return Branch(test, body, orelse)

    def reset_kinds(self, kinds: Mapping[str, ValueKind]) -> None:
        """Replace the names that have a value. The expression parser shares them."""
        kept = dict(kinds)
        self.kinds.clear()
        self.kinds.update(kept)

    def parse_loop_body(self, nodes: Sequence[ast.stmt]) -> StatementBlock:
        """Return the body of a loop, after which only the names from before it have a value for sure."""
        before = dict(self.kinds)
        self.loops += 1
        body = self.parse_block(nodes)
        self.loops -= 1
        self.reset_kinds(before)
        return body

    def parse_for(self, node: ast.For, target: ast.Name) -> Statement:
        before = dict(self.kinds)
        match node.iter:
            case ast.Call(func=ast.Name(id="range"), args=args, keywords=[]) if 1 <= len(args) <= 2:
                ends = [self.expressions.parse(each, "number") for each in args]
                first = ends[0] if len(ends) == 2 else build_constant(0.0)
                name = self.declare(target, "number")
                loop: Statement = RangeLoop(name, first, ends[-1], self.parse_loop_body(node.body))
            case ast.Call(func=ast.Attribute(attr="split")) as call:
                text, separator = self.expressions.parse_split(call)
                name = self.declare(target, "text")
                loop = PartLoop(name, text, separator, self.parse_loop_body(node.body))
            case _:
                rule = "for loops must be over range(...) or text.split(...)"
                stepped = isinstance(node.iter, ast.Call) and len(node.iter.args) == 3
                hint = "a while loop, for another step than 1" if stepped else "for i in range(n):"
                raise build_refusal(node.iter, rule, hint=hint)
        self.reset_kinds(before)
        return loop

    def parse_call_statement(self, call: ast.Call) -> Statement:
        if isinstance(call.func, ast.Name) and call.func.id == "emit":
            self.emits = True
            if len(call.args) != 2 or call.keywords:
                raise build_refusal(call, "emit must have a key and a value", hint="emit(key, value)")
            return Emission(self.parse_key(call.args[0]), self.expressions.parse(call.args[1], "number"))
        if isinstance(call.func, ast.Name) and call.func.id in self.functions:
            label, body, parser = self.inline(call)
            if parser.returned:
                raise build_refusal(call, "the value of a function must be used", hint="x = f(...)")
            return Inlining(label, body)
        raise build_refusal(call, "a call by itself must be emit(key, value)", hint="emit(key, value)")

    def parse_key(self, node: ast.expr) -> int | Operation:
        kind: ValueKind = "text" if isinstance(next(iter(self.keys)), bytes) else "number"
        key = self.expressions.parse(node, kind)
        if key.name != "constant":
            return key
        if key.value not in self.keys:
            first = list(islice(self.keys, 8))
            listed = ", ".join(repr(each.decode() if isinstance(each, bytes) else int(each)) for each in first)
            raise build_refusal(node, f"keys must be declared ({listed}{', ...' * (len(self.keys) > 8)})")
        return self.keys[key.value]

    def parse_return(self, node: ast.Return) -> Exit:
        if node.value is None:
            return Exit("return", self.label)
        if not self.label:
            raise build_refusal(node, "mapper must return no value", hint="emit(key, value) and return")
        value = self.expressions.parse(node.value)
        self.returned.append(value.kind)
        if value.kind != self.returned[0]:
            raise build_refusal(node, f"a function must return one kind, a {self.returned[0]}", f"a {value.kind}")
        return Exit("return", self.label, value)

    def parse_call(self, call: ast.Call) -> Operation | None:
        """Return the inlined call of an own function with a value; None for other functions."""
        if not isinstance(call.func, ast.Name) or call.func.id not in self.functions:
            return None
        label, body, parser = self.inline(call)
        function = self.functions[call.func.id]
        if parser.emits:
            rule = "functions with a value must not emit"
            raise build_refusal(call, rule, hint="emit(key, value) in mapper, with the value")
        if not parser.returned or not leaves(function.body):
            raise build_refusal(function, f"{function.name} must return a value on every path", "a path without one")
        return Operation("inline", parser.returned[0], value=label, body=body)

    def inline(self, call: ast.Call) -> tuple[str, StatementBlock, "FunctionParser"]:
        """Return the label and the body of a call: first the parameters are assigned."""
        function = self.functions[ast.unparse(call.func)]
        if function.name in self.callers:
            raise build_refusal(call, f"{function.name} must not call itself", hint="a while loop")
        names = _list_parameters(function)
        if len(names) != len(call.args) or call.keywords:
            rule = f"{function.name} must have {len(names)} arguments"
            raise build_refusal(call, rule, hint=f"{function.name}({', '.join(names)})")
        self.counts["calls"] += 1
        label = f".{self.counts['calls']}"
        values = [self.expressions.parse(each) for each in call.args]
        kinds = {name: value.kind for name, value in zip(names, values, strict=True)}
        parser = FunctionParser(self.functions, self.keys, kinds, label, (*self.callers, function.name), self.counts)
        body = parser.parse_block(function.body)
        if any(value is None for value in find_returns(function)) and parser.returned:
            raise build_refusal(function, f"{function.name} must return a value on every path", "a bare return")
        self.emits |= parser.emits
        given = [Assignment(f"{name}{label}", value) for name, value in zip(names, values, strict=True)]
        return label, StatementBlock((*given, *body.statements)), parser


def find_returns(function: ast.FunctionDef) -> list[ast.expr | None]:
    return [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]


def leaves(nodes: Sequence[ast.stmt]) -> bool:
    """Return whether a block surely ends with return, break or continue."""
    for node in nodes:
        if isinstance(node, ast.Return | ast.Break | ast.Continue):
            return True
        if isinstance(node, ast.If) and node.orelse and leaves(node.body) and leaves(node.orelse):
            return True
    return False
