"""What SQL is read at all: an allow-list of the nodes of the parsed tree, and of the parts of each node.

Privacy
    What is not listed here is refused before anything else looks at it, with a reason that depends on the
    text of the query alone. So nothing that could read, sleep, draw, raise or see more than one record (a
    subquery, a window, an ORDER BY) ever reaches the engine. The text is bounded in words before it is
    parsed, and the tree in depth, so that a hostile text costs its reader little.
"""

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from itertools import pairwise

import sqlglot
from sqlglot import Token, TokenType, exp
from sqlglot.errors import ParseError, SqlglotError

from streamgauge.query.query import Refused
from streamgauge.query.sql.nodes import ALLOWED, FUNCTION_NAMES, FUNCTIONS, REASONS, Node

LONGEST_SQL = 32_768  # characters
MOST_WORDS = 4096  # and signs: two lists of a thousand values
DEEPEST_TEXT = 32  # parentheses and CASEs within each other, and signs in a row
DEEPEST_TREE = 80  # a sum of as many terms


def read(sql: str) -> exp.Select:
    """The tree of a query, every node of which is on the list."""
    _check_text(sql)
    statements = [statement for statement in _parsed(sql) if statement is not None]
    if len(statements) != 1:
        raise Refused(f"sql must be one SELECT, got {len(statements)} statements")
    (statement,) = statements
    _check_tree(statement)
    if not isinstance(statement, exp.Select):
        raise Refused(f"sql must be a SELECT, got {statement.key.upper()}")
    return statement


def _parsed(sql: str) -> list[Node | None]:
    try:
        return sqlglot.parse(sql, read="duckdb")
    except ParseError as error:
        what = error.errors[0] if error.errors else {}
        told = what.get("description", "syntax error").partition(" for <")[0].rstrip(".").lower()
        where = f"line {what.get('line')}, column {what.get('col')}"
        raise Refused(f"sql cannot be read: {told} ({where})") from None


def _check_text(sql: str) -> None:
    if len(sql) > LONGEST_SQL:
        raise Refused(f"sql must be at most {LONGEST_SQL} characters, got {len(sql)}")
    if "\0" in sql or any("\ud800" <= sign <= "\udfff" for sign in sql):
        raise Refused("sql must be without the character NUL and without halves of characters")
    try:
        tokens = sqlglot.tokenize(sql, read="duckdb")
    except SqlglotError:
        raise Refused("sql cannot be read: a quote or comment is not closed") from None
    if len(tokens) > MOST_WORDS:
        raise Refused(f"sql must be at most {MOST_WORDS} words and signs, got {len(tokens)}")
    _check_beginning(tokens)
    if max(_depths(tokens), default=0) > DEEPEST_TEXT:
        raise Refused(f"sql must be nested at most {DEEPEST_TEXT} deep")


def _check_beginning(tokens: Sequence[Token]) -> None:
    """Refuses other statements before they are parsed: of those that it lacks the parser prints the text."""
    for before, token in pairwise([None, *tokens]):
        begins = before is None or before.token_type is TokenType.SEMICOLON
        if token is not None and begins and token.token_type not in BEGINNINGS:
            raise Refused(
                reason(token.text.lower()) if before is None else "sql must be one SELECT, got more"
            )


BEGINNINGS = {TokenType.SELECT, TokenType.FROM, TokenType.WITH, TokenType.L_PAREN, TokenType.SEMICOLON}


OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
CLOSING = {TokenType.R_PAREN, TokenType.END}  # brackets, which the dialect has none of, are never closed
SIGNS = {TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE}


def _depths(tokens: Iterable[Token]) -> Iterator[int]:
    """How deep a parser would be after each token, before it is asked to go there."""
    depth = signs = 0
    for token in tokens:
        depth += (token.token_type in OPENING) - (token.token_type in CLOSING)
        signs = signs + 1 if token.token_type in SIGNS else 0
        yield depth + signs


def _check_tree(root: Node) -> None:
    """Walks without recursion: a hostile tree must not be stronger than its reader."""
    waiting: list[tuple[Node, int]] = [(root, 1)]
    while waiting:
        node, depth = waiting.pop()
        if depth > DEEPEST_TREE:
            raise Refused(f"sql must be at most {DEEPEST_TREE} operations deep: use IN, or fewer terms")
        _check_node(node)
        waiting += [(child, depth + 1) for child in node.iter_expressions()]


def _check_node(node: Node) -> None:
    allowed = ALLOWED.get(type(node))
    if allowed is None:
        raise Refused(reason(node.key))
    for part, value in node.args.items():
        if value and part not in allowed:
            raise Refused(reason(part) if isinstance(node, exp.Select) else _odd(node, part))
    if any(needed and node.args.get(part) is None for part, needed in node.arg_types.items()):
        raise Refused(f"{node.key.upper()} needs more operands")
    if isinstance(node, exp.Select) and node.parent is not None:
        raise Refused(REASONS["subquery"])
    if isinstance(node, exp.Star | exp.Distinct) and not isinstance(node.parent, exp.Count):
        raise Refused(REASONS[node.key])
    if isinstance(node, exp.Anonymous) and str(node.this).lower() not in FUNCTIONS:
        raise Refused(f"function {node.this} is not in the dialect{near(str(node.this), FUNCTION_NAMES)}")


def reason(key: str) -> str:
    return REASONS.get(key, f"{key.strip('_').upper()} is not in the dialect (see docs/sql.md)")


def _odd(node: Node, part: str) -> str:
    return f"{node.key.upper()} with {part.strip('_').replace('_', ' ').upper()} is not in the dialect"


def near(name: str, names: Iterable[str]) -> str:
    """A suggestion for a name that is not there."""
    names = list(names)
    close = get_close_matches(name, names, 1) or get_close_matches(
        name.lower(), [n.lower() for n in names], 1
    )
    return f", did you mean {close[0]}?" if close else ""
