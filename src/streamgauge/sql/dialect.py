"""Allow-list of the dialect: nodes of the parsed tree, and the parts of each.

Privacy
    A node that is not listed here is refused before any other processing, with a reason that depends on the
    text of the query alone. So nothing that could read, sleep, draw, raise or see more than one record (a
    subquery, a window) ever reaches the engine. The text is bounded in words before it is
    parsed, and the tree in depth, so that a hostile text costs the parser little.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from itertools import pairwise

import sqlglot
from sqlglot import Token, TokenType, exp
from sqlglot.errors import ParseError, SqlglotError

from streamgauge.config.errors import InvalidReleaseError
from streamgauge.sql.functions import SCALAR_FUNCTIONS, Functions, find_function, load_functions
from streamgauge.sql.refusals import (
    CAST_HINT,
    LARGEST_ADVICE,
    NODE_REASONS,
    PARAMETERS,
    SUBQUERIES,
    explain_function,
    explain_node,
    explain_word,
    show_node,
)

Node = exp.Expr
DATE_PARTS: dict[type[Node], str] = {
    exp.Hour: "hour",
    exp.Minute: "minute",
    exp.Second: "second",
    exp.Day: "day",
    exp.DayOfMonth: "day",
    exp.Month: "month",
    exp.Quarter: "quarter",
    exp.Year: "year",
    exp.DayOfWeek: "dow",
    exp.DayOfWeekIso: "isodow",
    exp.Week: "week",
    exp.WeekOfYear: "week",
    exp.DayOfYear: "doy",
}
UNARY_NODES: tuple[type[Node], ...] = (
    exp.Paren,
    exp.Neg,
    exp.Not,
    exp.Abs,
    exp.Floor,
    exp.Ceil,
    exp.Lower,
    exp.Upper,
    exp.Date,
    *DATE_PARTS,
)
BINARY_NODES: tuple[type[Node], ...] = (
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Div,
    exp.Mod,
    exp.And,
    exp.Or,
    exp.EQ,
    exp.NEQ,
    exp.LT,
    exp.LTE,
    exp.GT,
    exp.GTE,
    exp.Is,
    exp.Nullif,
)
ALLOWED_PARTS: dict[type[Node], set[str]] = {
    **{node: {"this"} for node in UNARY_NODES},
    **{node: {"this", "expression"} for node in BINARY_NODES},
    exp.Select: {"expressions", "from_", "joins", "where", "group", "order", "limit"},
    exp.From: {"this"},
    exp.Table: {"this", "alias"},
    exp.TableAlias: {"this"},
    exp.Join: {"this", "on", "using", "side", "kind"},
    exp.Where: {"this"},
    exp.Group: {"expressions", "rollup"},
    exp.Rollup: {"expressions"},
    exp.Limit: {"expression"},
    exp.Alias: {"this", "alias"},
    exp.Column: {"this", "table"},
    exp.Identifier: {"this", "quoted"},
    exp.Literal: {"this", "is_string"},
    exp.Boolean: {"this"},
    exp.Null: set(),
    exp.Star: set(),
    exp.Distinct: {"expressions"},
    exp.Div: {"this", "expression", "typed", "safe"},
    exp.Like: {"this", "expression", "negate"},
    exp.ILike: {"this", "expression", "negate"},
    exp.Between: {"this", "low", "high"},
    exp.In: {"this", "expressions"},
    exp.Case: {"this", "ifs", "default"},
    exp.If: {"this", "true", "false"},
    exp.Coalesce: {"this", "expressions"},
    exp.Least: {"this", "expressions", "ignore_nulls"},
    exp.Greatest: {"this", "expressions", "ignore_nulls"},
    exp.Round: {"this", "decimals"},
    exp.Cast: {"this", "to"},
    exp.TryCast: {"this", "to", "safe"},
    exp.DataType: {"this"},
    exp.Extract: {"this", "expression"},
    exp.Var: {"this"},
    exp.TimestampTrunc: {"this", "unit"},
    exp.DateTrunc: {"this", "unit"},
    exp.Filter: {"this", "expression"},
    exp.WithinGroup: {"this", "expression"},
    exp.Order: {"this", "expressions"},
    exp.Ordered: {"this", "desc", "nulls_first"},
    exp.Anonymous: {"this", "expressions"},
}


TOP_PATTERN = re.compile(r"\s*SELECT\s+TOP[\s(]+\d", re.IGNORECASE)
PARAMETER_PATTERN = re.compile(r"(?<![:\w]):[A-Za-z_]\w*")
MAX_SQL_CHARS = 32_768  # characters
MAX_TOKENS = 4096  # words and signs: two lists of a thousand values
MAX_TOKEN_DEPTH = 32  # nested parentheses and CASEs, and signs in a row
MAX_TREE_DEPTH = 80  # a sum of as many terms


def parse_select(sql: str, functions: Functions | None = None) -> exp.Select:
    """Return the tree of a query. Every node is on the list.

    Args:
        functions: Aggregate functions that may be called; the built-in ones if none are given.
    """
    _check_text(sql)
    statements = [statement for statement in _parse_statements(sql) if statement is not None]
    if len(statements) != 1:
        raise InvalidReleaseError(f"sql must be one SELECT, got {len(statements)} statements")
    (statement,) = statements
    _check_tree(statement, load_functions() if functions is None else functions)
    if not isinstance(statement, exp.Select):
        raise InvalidReleaseError("sql must be a SELECT")
    return statement


def _parse_statements(sql: str) -> list[Node | None]:
    try:
        return sqlglot.parse(sql, read="duckdb")
    except ParseError as error:
        what = error.errors[0] if error.errors else {}
        description = what.get("description", "syntax error").rstrip(".").lower()
        if "required keyword" in description:
            description = "something is missing"
        where = f"line {what.get('line')}, column {what.get('col')}"
        if "`" in sql:
            raise InvalidReleaseError(f"sql cannot be read: names are in double quotes, not in ` ({where})") from None
        if PARAMETER_PATTERN.search(sql):
            raise InvalidReleaseError(f"{PARAMETERS} ({where})") from None
        if TOP_PATTERN.match(sql):
            raise InvalidReleaseError(f"TOP is refused: {LARGEST_ADVICE} ({where})") from None
        raise InvalidReleaseError(f"sql cannot be read: {description} ({where})") from None


def _check_text(sql: str) -> None:
    if len(sql) > MAX_SQL_CHARS:
        raise InvalidReleaseError(f"sql must be at most {MAX_SQL_CHARS} characters, got {len(sql)}")
    if "\0" in sql or any("\ud800" <= sign <= "\udfff" for sign in sql):
        raise InvalidReleaseError("sql must be without the character NUL and without halves of characters")
    try:
        tokens = sqlglot.tokenize(sql, read="duckdb")
    except SqlglotError:
        raise InvalidReleaseError("sql cannot be read: a quote or comment is not closed") from None
    if len(tokens) > MAX_TOKENS:
        raise InvalidReleaseError(f"sql must be at most {MAX_TOKENS} words and signs, got {len(tokens)}")
    _check_beginning(tokens)
    if max(_measure_depths(tokens), default=0) > MAX_TOKEN_DEPTH:
        raise InvalidReleaseError(f"sql must be nested at most {MAX_TOKEN_DEPTH} deep")


def _check_beginning(tokens: Sequence[Token]) -> None:
    """Reject other statements before parsing: the parser prints text of unknown ones."""
    for before, token in pairwise([None, *tokens]):
        begins = before is None or before.token_type is TokenType.SEMICOLON
        if token is not None and begins and token.token_type not in STATEMENT_STARTS:
            word = f"{token.text[:20].upper()} is refused: " if before is None else ""
            raise InvalidReleaseError(f"{word}sql must be one SELECT{'' if word else ', got more'}")


STATEMENT_STARTS = {TokenType.SELECT, TokenType.FROM, TokenType.WITH, TokenType.L_PAREN, TokenType.SEMICOLON}


OPENING_TOKENS = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
CLOSING_TOKENS = {TokenType.R_PAREN, TokenType.END}  # the dialect has no brackets, so they are never closed
SIGN_TOKENS = {TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE}


def _measure_depths(tokens: Iterable[Token]) -> Iterator[int]:
    """Yield the depth that a parser would have after each token, before it parses."""
    depth = signs = 0
    for token in tokens:
        depth += (token.token_type in OPENING_TOKENS) - (token.token_type in CLOSING_TOKENS)
        signs = signs + 1 if token.token_type in SIGN_TOKENS else 0
        yield depth + signs


def _check_tree(root: Node, functions: Functions) -> None:
    """Check all nodes, without recursion: a hostile tree may be deep."""
    waiting: list[tuple[Node, int]] = [(root, 1)]
    while waiting:
        node, depth = waiting.pop()
        if depth > MAX_TREE_DEPTH:
            raise InvalidReleaseError(f"sql must be at most {MAX_TREE_DEPTH} operations deep: use IN, or fewer terms")
        _check_node(node, functions)
        waiting += [(child, depth + 1) for child in node.iter_expressions()]


def _check_node(node: Node, functions: Functions) -> None:
    function = find_function(node, functions)
    allowed = ALLOWED_PARTS.get(type(node), None if function is None else function.parts)
    if allowed is None:
        raise InvalidReleaseError(explain_node(node))
    if isinstance(node, exp.Order) and not isinstance(
        node.parent, exp.Select | exp.WithinGroup | exp.PercentileCont | exp.PercentileDisc
    ):
        raise InvalidReleaseError(ORDERED_AGGREGATE_REASON)
    for part, value in node.args.items():
        if value and part not in allowed:
            raise InvalidReleaseError(_explain_part(node, part))
    if isinstance(node, exp.Date) and node.this is None:  # the parser reads DATE(), and cannot write it
        raise InvalidReleaseError("DATE needs one time")
    if any(needed and node.args.get(part) is None for part, needed in node.arg_types.items()):
        raise InvalidReleaseError(f"{show_node(node)} needs more operands")
    if isinstance(node, exp.Select) and node.parent is not None:
        raise InvalidReleaseError(SUBQUERIES)
    if isinstance(node, exp.Star | exp.Distinct) and not isinstance(node.parent, exp.Count):
        raise InvalidReleaseError(explain_node(node))
    if isinstance(node, exp.WithinGroup) and not isinstance(node.this, exp.PercentileCont | exp.PercentileDisc):
        raise InvalidReleaseError(NODE_REASONS["withingroup"])
    if isinstance(node, exp.Anonymous) and function is None and str(node.this).lower() not in SCALAR_FUNCTIONS:
        hint = suggest_name(str(node.this), list_function_names(functions))
        raise InvalidReleaseError(
            explain_function(str(node.this)) or f"function {node.this} is not in the dialect{hint}"
        )


ORDERED_AGGREGATE_REASON = "ORDER BY in an aggregate is refused: write PERCENTILE_CONT(q) WITHIN GROUP (ORDER BY x)"


def _explain_part(node: Node, part: str) -> str:
    """Return the refusal of a part that a node must not have."""
    if (reason := NODE_REASONS.get(f"{node.key}.{part}")) is not None:
        return reason
    if isinstance(node, exp.Select) or part in NODE_REASONS:
        return explain_word(part)
    if isinstance(node, exp.Star):
        return explain_node(node)
    if isinstance(node, exp.DataType):
        return f"CAST to {show_node(node)} is not in the dialect: {CAST_HINT}"
    return f"{show_node(node)} is not in the dialect as it is written (see docs/sql.md)"


def list_function_names(functions: Functions) -> list[str]:
    """Return all function names of the dialect, of the parser or of a package."""
    known = {exp.FUNCTION_BY_NAME[name.upper()] for name in functions if name.upper() in exp.FUNCTION_BY_NAME}
    nodes = [node for node in {*ALLOWED_PARTS, *known} if issubclass(node, exp.Func)]
    return sorted({*functions, *(name.lower() for node in nodes for name in node.sql_names())})


def suggest_name(name: str, names: Iterable[str]) -> str:
    """Return a suggestion for an unknown name."""
    names = list(names)
    close = get_close_matches(name, names, 1) or get_close_matches(name.lower(), [n.lower() for n in names], 1)
    return f", did you mean {close[0]}?" if close else ""
