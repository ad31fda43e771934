"""Aggregate functions that SQL can call, found by their names.

Every module of `streamgauge.plan.aggregates` that has a `FUNCTION` provides it. Another package provides one by
an entry point of the group "streamgauge.aggregates", if the caller allows the package. SQL needs only the part
of a function that `AggregateSyntax` describes. `plan.aggregates.function` has all of it.
"""

from collections.abc import Collection, Iterator, Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Protocol

from sqlglot import exp

from streamgauge.registry import Registry, RegistryError
from streamgauge.sql.query import Aggregate

if TYPE_CHECKING:
    from streamgauge.sql.reader import ExpressionReader

BUILT_IN_PACKAGE = "streamgauge.plan.aggregates"
SCALAR_FUNCTIONS = {"dow", "isodow", "doy", "weekday", "date_part"}  # unknown to the parser by name


class AggregateSyntax(Protocol):
    """Aggregate function as SQL uses it."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names in SQL, in lower case."""
        ...

    @property
    def parts(self) -> Collection[str]:
        """Parts that a call may have if the parser knows the name."""
        ...

    def read(self, call: exp.Expr, read: "ExpressionReader", /) -> Aggregate:
        """Return the aggregate that a call means, or raise `InvalidReleaseError`."""
        ...


Functions = Mapping[str, AggregateSyntax]
AGGREGATES: Registry[AggregateSyntax] = Registry("aggregate", "streamgauge.aggregates")


@cache
def load_functions(allow: tuple[str, ...] = ()) -> Functions:
    """Return all functions by name: the built-in ones, and those of allowed packages."""
    found: dict[str, AggregateSyntax] = {}
    for function in (*_find_built_in(), *AGGREGATES.load_outside(allow).values()):
        for name in function.names:
            if name in found or _is_scalar(name):
                raise RegistryError(f"name of an aggregate must be free in SQL, got {name}")
            found[name] = function
    return found


def _find_built_in() -> Iterator[AggregateSyntax]:
    package = import_module(BUILT_IN_PACKAGE)
    for module in iter_modules(package.__path__, f"{BUILT_IN_PACKAGE}."):
        function = getattr(import_module(module.name), "FUNCTION", None)
        if function is not None:
            yield function


def _is_scalar(name: str) -> bool:
    node = exp.FUNCTION_BY_NAME.get(name.upper())
    return name in SCALAR_FUNCTIONS or (node is not None and not issubclass(node, exp.AggFunc))


def to_function_name(node: exp.Expr) -> str:
    """Return the lower-case name of a called function, or an empty text."""
    if not isinstance(node, exp.Anonymous):
        return type(node).sql_names()[0].lower() if isinstance(node, exp.Func) else ""
    name = str(node.this)
    # A quoted name is not a call of a function that the parser knows: its parts would not be checked.
    return "" if name.upper() in exp.FUNCTION_BY_NAME else name.lower()


def find_function(node: exp.Expr, functions: Functions) -> AggregateSyntax | None:
    """Return the aggregate function that a node calls, if it calls one, with or without a FILTER."""
    while isinstance(node, exp.Filter | exp.WithinGroup):
        node = node.this
    return functions.get(to_function_name(node))
