"""From the parsed tree to typed expressions: one rule for each node of the dialect."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from streamgauge.query.query import Refused
from streamgauge.query.sql import arithmetic, choices, predicates, times
from streamgauge.query.sql.dialect import reason
from streamgauge.query.sql.expressions import NULL, Expression, Type, boolean, number, text
from streamgauge.query.sql.nodes import DATE_PARTS, Node, is_aggregate
from streamgauge.query.sql.scope import Scope

CASTS: dict[str, Type] = {"DOUBLE": "number", "TEXT": "text", "VARCHAR": "text", "BOOLEAN": "boolean"}
NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
MOMENTS = {"TIMESTAMP", "TIMESTAMPNTZ", "DATE"}


@dataclass(frozen=True)
class Reader:
    """Reads the expressions of one query."""

    scope: Scope

    def __call__(self, node: Node) -> Expression:
        rule = RULES.get(type(node))
        if rule is None or is_aggregate(node):
            raise Refused(ALONE if is_aggregate(node) else reason(node.key))
        return rule(node, self)


ALONE = "an aggregate must stand alone in SELECT: release both and combine the releases"
Rule = Callable[[Node, Reader], Expression]


def _unary(build: Callable[[Expression], Expression]) -> Rule:
    return lambda node, of: build(of(node.this))


def _binary(build: Callable[[Expression, Expression], Expression]) -> Rule:
    return lambda node, of: build(of(node.this), of(node.expression))


def _comparison(sign: str) -> Rule:
    return _binary(lambda a, b: predicates.compare(sign, a, b))


def _many(build: Callable[[tuple[Expression, ...]], Expression]) -> Rule:
    return lambda node, of: build((of(node.this), *map(of, node.expressions)))


def _date_part(part: str) -> Rule:
    return lambda node, of: times.part(part, of(node.this), of.scope.stream)


def _literal(node: Node, of: Reader) -> Expression:
    if node.is_string:
        return text(node.this)
    if not NUMBER.fullmatch(node.this):
        raise Refused(f"a number must be like 12, 0.5 or 1e3 and stand apart, got {node.this[:20]}")
    value = float(node.this)
    if not math.isfinite(value):
        raise Refused(f"a number must be finite, got {node.this[:20]}")
    return number(value)


def _column(node: Node, of: Reader) -> Expression:
    return of.scope.column(node)  # type: ignore[arg-type]


def _case(node: Node, of: Reader) -> Expression:
    default = node.args.get("default")
    branches = [(of(branch.this), of(branch.args["true"])) for branch in node.args["ifs"]]
    otherwise = of(default) if default else None
    return (
        choices.matched(of(node.this), branches, otherwise)
        if node.this
        else choices.case(branches, otherwise)
    )


def _if(node: Node, of: Reader) -> Expression:
    default = node.args.get("false")
    return choices.case([(of(node.this), of(node.args["true"]))], of(default) if default else None)


def _is(node: Node, of: Reader) -> Expression:
    if isinstance(node.expression, exp.Null):
        return predicates.is_null(of(node.this))
    if isinstance(node.expression, exp.Boolean):
        return predicates.is_truth(of(node.this), node.expression.this)
    raise Refused("IS needs NULL, TRUE or FALSE")


def _like(node: Node, of: Reader) -> Expression:
    found = predicates.like(of(node.this), of(node.expression))
    return predicates.negation(found) if node.args.get("negate") else found


def _round(node: Node, of: Reader) -> Expression:
    digits = of(node.args["decimals"]).constant if node.args.get("decimals") else 0
    if type(digits) is not int:
        raise Refused("the digits of ROUND must be a whole number")
    return arithmetic.rounded(of(node.this), digits)


def _cast(node: Node, of: Reader) -> Expression:
    target = str(node.args["to"].this.value)
    operand = of(node.this)
    if target in MOMENTS and isinstance(operand.constant, str):
        return times.moment(operand)
    if target not in CASTS:
        raise Refused(
            f"CAST to {target} is not in the dialect: use DOUBLE, TEXT or BOOLEAN, and FLOOR, CEIL or ROUND"
        )
    return choices.cast(operand, CASTS[target])


def _function(node: Node, of: Reader) -> Expression:
    """dow(ts), weekday(ts) and date_part('hour', ts)."""
    called = str(node.this).lower()
    wanted, what = (2, "a date part and a time") if called == "date_part" else (1, "one time")
    operands = [of(operand) for operand in node.expressions]
    name = operands[0].constant if called == "date_part" and operands else called
    if len(operands) != wanted or not isinstance(name, str):
        raise Refused(f"{called} needs {what}")
    return times.part(name, operands[-1], of.scope.stream)


RULES: dict[type[Node], Rule] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Boolean: lambda node, of: boolean(node.this),
    exp.Null: lambda node, of: NULL,
    exp.Paren: lambda node, of: of(node.this),
    exp.Neg: _unary(arithmetic.negate),
    exp.Abs: _unary(arithmetic.absolute),
    exp.Floor: _unary(arithmetic.floor),
    exp.Ceil: _unary(arithmetic.ceil),
    exp.Round: _round,
    exp.Add: _binary(arithmetic.add),
    exp.Sub: _binary(arithmetic.subtract),
    exp.Mul: _binary(arithmetic.multiply),
    exp.Div: _binary(arithmetic.divide),
    exp.Mod: _binary(arithmetic.remainder),
    exp.Least: _many(arithmetic.least),
    exp.Greatest: _many(arithmetic.greatest),
    exp.Not: _unary(predicates.negation),
    exp.And: _binary(predicates.both),
    exp.Or: _binary(predicates.either),
    exp.EQ: _comparison("="),
    exp.NEQ: _comparison("<>"),
    exp.LT: _comparison("<"),
    exp.LTE: _comparison("<="),
    exp.GT: _comparison(">"),
    exp.GTE: _comparison(">="),
    exp.Between: lambda node, of: predicates.between(
        of(node.this), of(node.args["low"]), of(node.args["high"])
    ),
    exp.In: lambda node, of: predicates.member(of(node.this), list(map(of, node.expressions))),
    exp.Like: _like,
    exp.Is: _is,
    exp.Case: _case,
    exp.If: _if,
    exp.Coalesce: _many(choices.coalesce),
    exp.Nullif: _binary(choices.nullif),
    exp.Lower: _unary(lambda a: choices.letters("LOWER", a)),
    exp.Upper: _unary(lambda a: choices.letters("UPPER", a)),
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Extract: lambda node, of: times.part(node.name, of(node.expression), of.scope.stream),
    exp.Anonymous: _function,
    **{node: _date_part(part) for node, part in DATE_PARTS.items()},
}
