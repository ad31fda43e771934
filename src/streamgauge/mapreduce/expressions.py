"""Expressions of a mapper: from Python's syntax tree to typed operations, by an allow-list."""

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite

from streamgauge.mapreduce.errors import build_refusal, format_node
from streamgauge.mapreduce.program import MAX_TEXT_BYTES, Operation, ValueKind

DAY, HOUR, MINUTE, SECOND = 86_400e6, 3_600e6, 60e6, 1e6  # microseconds
ARITHMETIC = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%"}
COMPARISONS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
NUMBER_CALLS = {"abs": 1, "floor": 1, "ceil": 1, "sqrt": 1, "int": 1, "min": 2, "max": 2}  # arguments; 2: or more
TEXT_METHODS: dict[str, tuple[int, ValueKind]] = {  # arguments, result
    "startswith": (1, "bool"),
    "endswith": (1, "bool"),
    "find": (1, "number"),
    "lower": (0, "text"),
    "upper": (0, "text"),
    "strip": (0, "text"),
}
KIND_HINTS: dict[tuple[ValueKind, ValueKind], str] = {  # found, needed
    ("text", "number"): "number(...) around a text",
    ("time", "number"): "t.hour, or the difference of two times",
    ("bool", "number"): "1 if ... else 0",
    ("number", "bool"): "a comparison, such as x != 0",
    ("text", "bool"): 'a comparison, such as text != ""',
    ("number", "text"): "a text: a key is a whole number only if all keys are",
}
FUNCTION_HINTS = {
    "float": "number(text)",
    "str": "the text itself",
    "print": "emit(key, value)",
    "round": "floor(x + 0.5)",
    "sum": "a for loop",
    "any": "a for loop",
    "all": "a for loop",
}
CLOCK_FIELDS = {"hour": (DAY, HOUR), "minute": (HOUR, MINUTE), "second": (MINUTE, SECOND)}
CALENDAR_FIELDS = ("day", "month", "year")
HINTS: dict[type[ast.AST], str] = {
    ast.List: "values in names of their own",
    ast.Tuple: "values in names of their own",
    ast.Dict: "if and elif",
    ast.Set: 'x in ("a", "b")',
    ast.ListComp: "a for loop",
    ast.GeneratorExp: "a for loop",
    ast.DictComp: "a for loop",
    ast.Lambda: "a def",
    ast.JoinedStr: "several emit(...), one for each text",
    ast.NamedExpr: "an assignment before it",
}


def build_constant(value: float | bytes | bool) -> Operation:
    kind: ValueKind = "bool" if isinstance(value, bool) else "text" if isinstance(value, bytes) else "number"
    return Operation("constant", kind, value=value)


def apply(name: str, kind: ValueKind, *operands: Operation) -> Operation:
    return Operation(name, kind, operands)


def join(name: str, conditions: list[Operation]) -> Operation:
    """Return conditions joined by `and` or `or`, from left to right, as a tree that is not deep."""
    if len(conditions) == 1:
        return conditions[0]
    half = len(conditions) // 2
    return apply(name, "bool", join(name, conditions[:half]), join(name, conditions[half:]))


@dataclass(frozen=True)
class ExpressionParser:
    """Parser of the expressions of one function.

    `kinds` has the names that surely have a value, with their kinds. `rename` gives the name of a local.
    `call` parses a call of one of the mapper's own functions. `count` rejects a program that is too large. `enter` and
    `leave` reject one that is nested too deeply.
    """

    kinds: Mapping[str, ValueKind]
    rename: Callable[[str], str]
    call: Callable[[ast.Call], Operation | None]
    count: Callable[[ast.AST], None]
    enter: Callable[[], None]
    leave: Callable[[ast.AST, Operation], None]

    def parse(self, node: ast.expr, kind: ValueKind | None = None) -> Operation:
        """Return the operation of a node; reject it unless it is of `kind`."""
        self.count(node)
        self.enter()
        found = self._parse(node)
        self.leave(node, found)
        return self._check_kind(node, found, kind)

    def _check_kind(self, node: ast.expr, found: Operation, kind: ValueKind | None) -> Operation:
        if kind is not None and found.kind != kind:
            hint = KIND_HINTS.get((found.kind, kind), "")
            raise build_refusal(node, f"{format_node(node)} must be a {kind}", f"a {found.kind}", hint)
        return found

    def _parse(self, node: ast.expr) -> Operation:
        name = f"_parse_{type(node).__name__.lower()}"
        parser: Callable[[ast.expr], Operation] | None = getattr(self, name, None)
        if parser is None:
            hint = HINTS.get(type(node), "")
            raise build_refusal(node, "expressions must be those of the mapper language", hint=hint)
        return parser(node)

    def _parse_constant(self, node: ast.Constant) -> Operation:
        value = node.value
        if isinstance(value, bool):
            return build_constant(value)
        if isinstance(value, int | float):
            return build_constant(_to_double(node, value))
        if isinstance(value, str):
            return build_constant(encode_literal(node, value))
        raise build_refusal(node, "constants must be numbers, texts, True or False")

    def _parse_name(self, node: ast.Name) -> Operation:
        if node.id not in self.kinds:
            rule = "names must have a value on every path that leads here"
            raise build_refusal(node, rule, hint=f"{node.id} = ... before it")
        return Operation("local", self.kinds[node.id], value=self.rename(node.id))

    def _parse_binop(self, node: ast.BinOp) -> Operation:
        """Return a sum or product, by a loop over its left operands: it may be long."""
        chain = [node]
        while isinstance(chain[-1].left, ast.BinOp):
            chain.append(chain[-1].left)
            self.count(chain[-1])
        found = self.parse(chain[-1].left)
        for each in reversed(chain):
            found = self._combine(each, found)
        return found

    def _combine(self, node: ast.BinOp, left: Operation) -> Operation:
        sign = ARITHMETIC.get(type(node.op))
        if sign is None:
            hint = "x * x" if isinstance(node.op, ast.Pow) else "arithmetic"
            raise build_refusal(node, "operators must be + - * / // %", hint=hint)
        if sign == "-" and left.kind == "time":
            return apply("/", "number", apply("-", "number", left, self.parse(node.right, "time")), build_constant(1e6))
        if left.kind == "text":
            hint = "several emit(...), one for each text"
            raise build_refusal(node, "texts must not be combined, so that none grows", hint=hint)
        return apply(sign, "number", self._check_kind(node.left, left, "number"), self.parse(node.right, "number"))

    def _parse_unaryop(self, node: ast.UnaryOp) -> Operation:
        if isinstance(node.op, ast.Not):
            return apply("not", "bool", self.parse(node.operand, "bool"))
        if isinstance(node.op, ast.USub):
            return apply("neg", "number", self.parse(node.operand, "number"))
        if isinstance(node.op, ast.UAdd):
            return self.parse(node.operand, "number")
        raise build_refusal(node, "operators must be + - * / // %")

    def _parse_boolop(self, node: ast.BoolOp) -> Operation:
        return join("and" if isinstance(node.op, ast.And) else "or", [self.parse(each, "bool") for each in node.values])

    def _parse_ifexp(self, node: ast.IfExp) -> Operation:
        body = self.parse(node.body)
        return apply("choose", body.kind, self.parse(node.test, "bool"), body, self.parse(node.orelse, body.kind))

    def _parse_compare(self, node: ast.Compare) -> Operation:
        sides = [node.left, *node.comparators]
        pairs = zip(sides, node.ops, sides[1:], strict=False)
        return join("and", [self._compare(node, *pair) for pair in pairs])

    def _compare(self, node: ast.Compare, left: ast.expr, sign: ast.cmpop, right: ast.expr) -> Operation:
        if isinstance(sign, ast.In | ast.NotIn):
            found = self._parse_membership(left, right)
            return found if isinstance(sign, ast.In) else apply("not", "bool", found)
        symbol = COMPARISONS.get(type(sign))
        if symbol is None:
            raise build_refusal(node, "comparisons must be < <= > >= == != in", hint="==")
        one = self.parse(left)
        other = self.parse(right, one.kind)
        if one.kind == "bool":
            raise build_refusal(node, "truth values must not be compared", hint="the condition itself, or not")
        if one.kind != "text":
            return apply(symbol, "bool", one, other)
        if symbol not in ("==", "!="):
            raise build_refusal(node, "texts must be compared by == or !=", hint="number(...) for numbers")
        same = apply("same", "bool", one, other)
        return same if symbol == "==" else apply("not", "bool", same)

    def _parse_membership(self, left: ast.expr, right: ast.expr) -> Operation:
        """Return `x in (a, b)`, as a chain of comparisons, or `part in text`."""
        if isinstance(right, ast.Tuple | ast.List | ast.Set) and right.elts:
            each = ast.Compare(left, [ast.Eq()], [right.elts[0]])
            return join("or", [self._compare(each, left, ast.Eq(), item) for item in right.elts])
        part, text = self.parse(left, "text"), self.parse(right, "text")
        return apply(">=", "bool", apply("find", "number", text, part), build_constant(0.0))

    def _parse_subscript(self, node: ast.Subscript) -> Operation:
        if isinstance(node.value, ast.Call) and _is_method(node.value, "split"):
            return self._parse_part(node, node.value)
        text = self.parse(node.value, "text")
        if not isinstance(node.slice, ast.Slice):
            return apply("character", "text", text, self.parse(node.slice, "number"))
        if node.slice.step is not None:
            raise build_refusal(node, "slices must have no step", hint="text[a:b]")
        lower = build_constant(0.0) if node.slice.lower is None else self.parse(node.slice.lower, "number")
        upper = self.parse(node.slice.upper, "number") if node.slice.upper is not None else build_constant(2.0**31)
        return apply("slice", "text", text, lower, upper)

    def _parse_part(self, node: ast.Subscript, call: ast.Call) -> Operation:
        if isinstance(node.slice, ast.Slice | ast.UnaryOp):
            raise build_refusal(node, "parts of a split must be numbered from 0", hint='text.split("/")[0]')
        text, separator = self.parse_split(call)
        return apply("part", "text", text, build_constant(separator), self.parse(node.slice, "number"))

    def parse_split(self, call: ast.Call) -> tuple[Operation, bytes]:
        """Return the text and the separator of text.split(...); b"" for white space."""
        if not isinstance(call.func, ast.Attribute) or call.keywords or len(call.args) > 1:
            raise build_refusal(call, "split must have at most one argument", hint='text.split(" ")')
        text = self.parse(call.func.value, "text")
        if not call.args:
            return text, b""
        separator = call.args[0]
        if not isinstance(separator, ast.Constant) or not isinstance(separator.value, str) or not separator.value:
            raise build_refusal(call, "a separator must be a literal of one or more characters", hint='split(" ")')
        return text, encode_literal(separator, separator.value)

    def _parse_attribute(self, node: ast.Attribute) -> Operation:
        if node.attr in (*CLOCK_FIELDS, *CALENDAR_FIELDS):
            return _build_clock_field(self.parse(node.value, "time"), node.attr)
        rule = f"attributes must be {', '.join([*CLOCK_FIELDS, *CALENDAR_FIELDS])} of a time"
        raise build_refusal(node, rule, hint=f"a call, .{node.attr}()" if node.attr in TEXT_METHODS else "t.hour")

    def _parse_call(self, node: ast.Call) -> Operation:
        if node.keywords or any(isinstance(each, ast.Starred) for each in node.args):
            raise build_refusal(node, "arguments must have no names and no *", hint="f(a, b)")
        if isinstance(node.func, ast.Attribute):
            return self._parse_method(node, node.func)
        if not isinstance(node.func, ast.Name):
            raise build_refusal(node, "functions must be called by their names")
        if (found := self.call(node)) is not None:
            return found
        name = node.func.id
        if name in NUMBER_CALLS:
            return self._parse_number_call(node, name)
        if name in ("len", "number") and len(node.args) == 1:
            return apply(name, "number", self.parse(node.args[0], "text"))
        known = "abs, ceil, floor, int, len, max, min, number, sqrt"
        hint = FUNCTION_HINTS.get(name, "")
        raise build_refusal(node, f"functions must be the mapper's own, or {known}", f"{name}(...)", hint)

    def _parse_number_call(self, node: ast.Call, name: str) -> Operation:
        count = NUMBER_CALLS[name]
        if len(node.args) < count or (count == 1 and len(node.args) > 1):
            raise build_refusal(node, f"{name} must have {'one argument' if count == 1 else 'two arguments or more'}")
        first, *others = [self.parse(each, "number") for each in node.args]
        if not others:
            return apply(name, "number", first)
        for other in others:
            first = apply(name, "number", first, other)
        return first

    def _parse_method(self, node: ast.Call, function: ast.Attribute) -> Operation:
        name = function.attr
        if name == "weekday" and not node.args:
            days = apply("//", "number", self.parse(function.value, "time"), build_constant(DAY))
            return apply("%", "number", apply("+", "number", days, build_constant(3.0)), build_constant(7.0))
        if name == "split":
            rule = "split must be the sequence of a for loop, or have an index"
            raise build_refusal(node, rule, hint='for word in text.split(" "):')
        if name not in TEXT_METHODS or len(node.args) != TEXT_METHODS[name][0]:
            known = "endswith, find, lower, split, startswith, strip, upper and weekday"
            hint = f"t.{name}" if name in (*CLOCK_FIELDS, *CALENDAR_FIELDS) else ""
            raise build_refusal(node, f"methods must be {known}, with their arguments", hint=hint)
        texts = [self.parse(each, "text") for each in (function.value, *node.args)]
        return apply(name, TEXT_METHODS[name][1], *texts)


def _build_clock_field(time: Operation, name: str) -> Operation:
    if name in CLOCK_FIELDS:
        cycle, unit = map(build_constant, CLOCK_FIELDS[name])
        return apply("//", "number", apply("%", "number", time, cycle), unit)
    days = apply("//", "number", time, build_constant(DAY))
    return apply("calendar", "number", days, build_constant(float(CALENDAR_FIELDS.index(name))))


def encode_literal(node: ast.AST, text: str) -> bytes:
    """Return a literal's bytes; reject one that is longer than any text."""
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise build_refusal(node, "literals must be UTF-8", "another") from None
    if len(data) > MAX_TEXT_BYTES:
        raise build_refusal(node, f"literals must have at most {MAX_TEXT_BYTES} bytes", str(len(data)))
    return data


def _to_double(node: ast.AST, value: float) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = float("inf")
    if not isfinite(number):
        raise build_refusal(node, "numbers must be finite doubles", "a larger one")
    return number


def _is_method(call: ast.Call, name: str) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == name
