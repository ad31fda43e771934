"""The allow-list: the nodes of a parsed tree that the dialect knows, and which parts each may have."""

from sqlglot import exp

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
UNARY: tuple[type[Node], ...] = (
    exp.Paren,
    exp.Neg,
    exp.Not,
    exp.Abs,
    exp.Floor,
    exp.Ceil,
    exp.Lower,
    exp.Upper,
    *DATE_PARTS,
)
BINARY: tuple[type[Node], ...] = (
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
SIMPLE_AGGREGATES: tuple[type[Node], ...] = (
    exp.Sum,
    exp.Avg,
    exp.Variance,
    exp.Stddev,
    exp.StddevSamp,
    exp.Min,
    exp.Max,
    exp.Median,
)
AGGREGATES: tuple[type[Node], ...] = (exp.Count, exp.Quantile, *SIMPLE_AGGREGATES)

ALLOWED: dict[type[Node], set[str]] = {
    **{node: {"this"} for node in UNARY},
    **{node: {"this", "expression"} for node in BINARY},
    **{node: {"this"} for node in SIMPLE_AGGREGATES},
    exp.Select: {"expressions", "from_", "joins", "where", "group"},
    exp.From: {"this"},
    exp.Table: {"this", "alias"},
    exp.TableAlias: {"this"},
    exp.Join: {"this", "on", "using", "side", "kind"},
    exp.Where: {"this"},
    exp.Group: {"expressions", "rollup"},
    exp.Rollup: {"expressions"},
    exp.Alias: {"this", "alias"},
    exp.Column: {"this", "table"},
    exp.Identifier: {"this", "quoted"},
    exp.Literal: {"this", "is_string"},
    exp.Boolean: {"this"},
    exp.Null: set(),
    exp.Star: set(),
    exp.Count: {"this", "big_int"},
    exp.Distinct: {"expressions"},
    exp.Quantile: {"this", "quantile"},
    exp.Div: {"this", "expression", "typed", "safe"},
    exp.Like: {"this", "expression", "negate"},
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
    exp.Anonymous: {"this", "expressions"},
}
OF_USERS = {"density", "heavy_fraction", "cropped_mean"}  # aggregates that the parser does not know by name
FUNCTIONS = OF_USERS | {
    "dow",
    "isodow",
    "doy",
    "weekday",
    "date_part",
}  # those that the parser does not know by name
FUNCTION_NAMES = sorted(
    name.lower() for node in ALLOWED if issubclass(node, exp.Func) for name in node.sql_names()
)


def is_aggregate(node: Node) -> bool:
    return isinstance(node, AGGREGATES) or (isinstance(node, exp.Anonymous) and called(node) in OF_USERS)


def called(node: Node) -> str:
    return str(node.this).lower()


REASONS: dict[str, str] = {
    "subquery": "a release reads the stream once: subqueries are refused",
    "window": "window functions see other events: choose the window of the release instead",
    "filter": "FILTER is refused: use WHERE, or CASE inside the aggregate",
    "having": "HAVING would tell which groups exist: filter the releases instead",
    "order": "ORDER BY is refused: groups come in the order they were declared in",
    "limit": "LIMIT is refused: every group is released at every tick",
    "offset": "OFFSET is refused: every group is released at every tick",
    "with_": "WITH is refused: a release is one SELECT",
    "distinct": "DISTINCT is read only as COUNT(DISTINCT column)",
    "union": "UNION is refused: make two releases",
    "star": "* is read only as COUNT(*): name the columns",
    "cube": "CUBE is refused: ROLLUP, or one release for each grouping",
    "groupingsets": "GROUPING SETS are refused: ROLLUP, or one release for each grouping",
    "ilike": "ILIKE is refused: use LOWER(column) LIKE pattern",
    "intdiv": "// is refused: use FLOOR(a / b)",
    "percentilecont": "QUANTILE_CONT is refused: use QUANTILE(expression, q)",
    "placeholder": "parameters are refused: write the literal",
    "parameter": "parameters are refused: write the literal",
    "into": "INTO is refused: a release writes to its sinks",
}
