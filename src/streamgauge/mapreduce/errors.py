"""Refusals of a mapper's source: the line, the rule, and a replacement to write."""

import ast


class MapperError(ValueError):
    """A mapper cannot be used. `line` is that of its source, from 1."""

    def __init__(self, rule: str, got: str, line: int | None = None, hint: str = "") -> None:
        self.line, self.hint = line, hint
        where = "" if line is None else f"line {line}: "
        super().__init__(f"{where}{rule}, got {got}{hint and f': write {hint}'}")


def build_refusal(node: ast.AST, rule: str, got: str | None = None, hint: str = "") -> MapperError:
    """Return the error of a node. Without `got` it shows the node's source.

    >>> str(build_refusal(ast.parse("x ** 2").body[0].value, "operators must be + - * / // %", hint="x * x"))
    'line 1: operators must be + - * / // %, got x ** 2: write x * x'
    """
    return MapperError(rule, format_node(node) if got is None else got, getattr(node, "lineno", None), hint)


def format_node(node: ast.AST) -> str:
    """Return the begin of a node's source."""
    try:
        return ast.unparse(node).splitlines()[0][:60]
    except RecursionError:
        return "deeper nesting"
