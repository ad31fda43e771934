"""Reader from the parsed tree to typed expressions: one rule for each node.

The normalised spelling of a query identifies its release, and is shown. It is the parser's, and another version of the
parser may have another. So a pinned query is normalised again before it is compared: queries of equal meaning are
equal.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from streamgauge.config.errors import InvalidReleaseError
from streamgauge.sql import arithmetic
from streamgauge.sql import conditions as choices
from streamgauge.sql import conditions as predicates
from streamgauge.sql import conditions as times
from streamgauge.sql.dialect import DATE_PARTS, Node, explain_refusal, parse_select
from streamgauge.sql.expressions import NULL, Expression, Type, build_boolean, build_number, build_text
from streamgauge.sql.functions import find_function
from streamgauge.sql.scope import Scope

CASTS: dict[str, Type] = {"DOUBLE": "number", "TEXT": "text", "VARCHAR": "text", "BOOLEAN": "boolean"}
NUMBER_PATTERN = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
TIME_TYPES = {"TIMESTAMP", "TIMESTAMPNTZ", "DATE"}


@dataclass(frozen=True)
class ExpressionReader:
    """Reader of the expressions of one query."""

    scope: Scope

    def __call__(self, node: Node) -> Expression:
        if find_function(node, self.scope.functions) is not None:
            raise InvalidReleaseError(NESTED_AGGREGATE_MESSAGE)
        rule = RULES.get(type(node))
        if rule is None:
            raise InvalidReleaseError(explain_refusal(node.key))
        return rule(node, self)


NESTED_AGGREGATE_MESSAGE = "an aggregate must stand alone in SELECT: release both and combine the releases"
NodeRule = Callable[[Node, ExpressionReader], Expression]


def _build_unary_rule(build: Callable[[Expression], Expression]) -> NodeRule:
    return lambda node, of: build(of(node.this))


def _build_binary_rule(build: Callable[[Expression, Expression], Expression]) -> NodeRule:
    return lambda node, of: build(of(node.this), of(node.expression))


def _build_comparison_rule(sign: str) -> NodeRule:
    return _build_binary_rule(lambda a, b: predicates.compare(sign, a, b))


def _build_variadic_rule(build: Callable[[tuple[Expression, ...]], Expression]) -> NodeRule:
    return lambda node, of: build((of(node.this), *map(of, node.expressions)))


def _build_date_part_rule(part: str) -> NodeRule:
    return lambda node, of: times.extract_part(part, of(node.this), of.scope.stream)


def _read_literal(node: Node, read: ExpressionReader) -> Expression:
    if node.is_string:
        return build_text(node.this)
    if not NUMBER_PATTERN.fullmatch(node.this):
        raise InvalidReleaseError(f"a number must be like 12, 0.5 or 1e3 and stand apart, got {node.this[:20]}")
    value = float(node.this)
    if not math.isfinite(value):
        raise InvalidReleaseError(f"a number must be finite, got {node.this[:20]}")
    return build_number(value)


def _read_case(node: Node, read: ExpressionReader) -> Expression:
    default = node.args.get("default")
    branches = [(read(branch.this), read(branch.args["true"])) for branch in node.args["ifs"]]
    otherwise = read(default) if default else None
    return choices.simple_case(read(node.this), branches, otherwise) if node.this else choices.case(branches, otherwise)


def _read_if(node: Node, read: ExpressionReader) -> Expression:
    default = node.args.get("false")
    return choices.case([(read(node.this), read(node.args["true"]))], read(default) if default else None)


def _read_is(node: Node, read: ExpressionReader) -> Expression:
    if isinstance(node.expression, exp.Null):
        return predicates.is_null(read(node.this))
    if isinstance(node.expression, exp.Boolean):
        return predicates.is_truth(read(node.this), node.expression.this)
    raise InvalidReleaseError("IS needs NULL, TRUE or FALSE")


def _read_like(node: Node, read: ExpressionReader) -> Expression:
    found = predicates.build_like(read(node.this), read(node.expression))
    return predicates.build_not(found) if node.args.get("negate") else found


def _read_round(node: Node, read: ExpressionReader) -> Expression:
    digits = read(node.args["decimals"]).constant if node.args.get("decimals") else 0
    if type(digits) is not int:
        raise InvalidReleaseError("the digits of ROUND must be a whole number")
    return arithmetic.round_digits(read(node.this), digits)


def _read_cast(node: Node, read: ExpressionReader) -> Expression:
    target = str(node.args["to"].this.value)
    operand = read(node.this)
    if target in TIME_TYPES and isinstance(operand.constant, str):
        return times.parse_time_literal(operand)
    if target not in CASTS:
        raise InvalidReleaseError(
            f"CAST to {target} is not in the dialect: use DOUBLE, TEXT or BOOLEAN, and FLOOR, CEIL or ROUND"
        )
    return choices.cast(operand, CASTS[target])


def _read_function(node: Node, read: ExpressionReader) -> Expression:
    """Read dow(ts), weekday(ts) and date_part('hour', ts)."""
    called = str(node.this).lower()
    wanted, what = (2, "a date part and a time") if called == "date_part" else (1, "one time")
    operands = [read(operand) for operand in node.expressions]
    name = operands[0].constant if called == "date_part" and operands else called
    if len(operands) != wanted or not isinstance(name, str):
        raise InvalidReleaseError(f"{called} needs {what}")
    return times.extract_part(name, operands[-1], read.scope.stream)


RULES: dict[type[Node], NodeRule] = {
    exp.Column: lambda node, of: of.scope.resolve_column(node),  # type: ignore[arg-type]
    exp.Literal: _read_literal,
    exp.Boolean: lambda node, of: build_boolean(node.this),
    exp.Null: lambda node, of: NULL,
    exp.Paren: lambda node, of: of(node.this),
    exp.Neg: _build_unary_rule(arithmetic.negate),
    exp.Abs: _build_unary_rule(arithmetic.absolute),
    exp.Floor: _build_unary_rule(arithmetic.floor),
    exp.Ceil: _build_unary_rule(arithmetic.ceil),
    exp.Round: _read_round,
    exp.Add: _build_binary_rule(arithmetic.add),
    exp.Sub: _build_binary_rule(arithmetic.subtract),
    exp.Mul: _build_binary_rule(arithmetic.multiply),
    exp.Div: _build_binary_rule(arithmetic.divide),
    exp.Mod: _build_binary_rule(arithmetic.remainder),
    exp.Least: _build_variadic_rule(arithmetic.least),
    exp.Greatest: _build_variadic_rule(arithmetic.greatest),
    exp.Not: _build_unary_rule(predicates.build_not),
    exp.And: _build_binary_rule(predicates.build_and),
    exp.Or: _build_binary_rule(predicates.build_or),
    exp.EQ: _build_comparison_rule("="),
    exp.NEQ: _build_comparison_rule("<>"),
    exp.LT: _build_comparison_rule("<"),
    exp.LTE: _build_comparison_rule("<="),
    exp.GT: _build_comparison_rule(">"),
    exp.GTE: _build_comparison_rule(">="),
    exp.Between: lambda node, of: predicates.build_between(of(node.this), of(node.args["low"]), of(node.args["high"])),
    exp.In: lambda node, of: predicates.build_in(of(node.this), list(map(of, node.expressions))),
    exp.Like: _read_like,
    exp.Is: _read_is,
    exp.Case: _read_case,
    exp.If: _read_if,
    exp.Coalesce: _build_variadic_rule(choices.coalesce),
    exp.Nullif: _build_binary_rule(choices.nullif),
    exp.Lower: _build_unary_rule(lambda a: choices.change_case("LOWER", a)),
    exp.Upper: _build_unary_rule(lambda a: choices.change_case("UPPER", a)),
    exp.Cast: _read_cast,
    exp.TryCast: _read_cast,
    exp.Extract: lambda node, of: times.extract_part(node.name, of(node.expression), of.scope.stream),
    exp.Anonymous: _read_function,
    **{node: _build_date_part_rule(part) for node, part in DATE_PARTS.items()},
}


def format_query(select: exp.Select) -> str:
    return select.sql(dialect="duckdb", identify=True, comments=False)


def normalize_query(sql: str) -> str:
    """Return a query in the spelling of the current parser, or unchanged if it fails."""
    try:
        return format_query(parse_select(sql))
    except Exception:
        return sql
