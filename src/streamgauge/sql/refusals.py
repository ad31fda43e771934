"""Refusals in the words of SQL: what is refused, and what to write instead.

Keys are those of the parser's nodes, of its parts of a SELECT, and of functions that it does not know. A node without
a reason here is shown as the query spells it, never by the parser's own name.
"""

import re

from sqlglot import ErrorLevel, exp

MAX_SHOWN_CHARS = 40  # of a refused expression
CALL_PATTERN = re.compile(r"(\w+)\(")

TEXTS = "a text is read by =, IN, LIKE 'pattern', LOWER and UPPER only"
PATTERNS = "regular expressions are refused: use LIKE 'pattern'"
LISTS = "lists, structs and JSON are refused: declare the value as a column of its own"
CLOCK = "a query cannot read the clock: choose the window of the release, or compare with a literal"
INTERVALS = "date arithmetic is refused: compare with a literal such as '2026-01-05', or choose the release's window"
FORMATS = "times are not written as texts: use date_trunc('day', time) or EXTRACT(part FROM time)"
ZONES = "times are in the time zone of the stream: leave the conversion out"
BUCKETS = "use date_trunc('hour', time), or a longer tick"
MATHS = "it fails or overflows on some numbers: transform the column before, or the release afterwards"
BITS = "bit operations are refused: declare a column for each flag"
EVENTS = "an aggregate must not show one event: use MIN, MAX or MEDIAN of a number"
LISTINGS = "an aggregate must not list events: group by the column and COUNT(*)"
SHARES = "one event would decide it: AVG(condition) is the share of events for which it is true"
MOMENTS = "release AVG(x), AVG(y), AVG(x * y), VARIANCE(x) and VARIANCE(y), and combine the releases"
POPULATION = "use STDDEV or VARIANCE, which divide by n - 1"
QUANTILES = "use QUANTILE(x, q), once for each q"
DISTINCTS = "use COUNT(DISTINCT column)"
WINDOWS = "window functions see other events: choose the window of the release instead"
SUBQUERIES = "a release reads the stream once: subqueries are refused"
LARGEST_ADVICE = "write LIMIT, as in ORDER BY COUNT(*) DESC LIMIT 10"
PARAMETERS = "parameters are refused: write the literal"
CHANCE = "a run could not be repeated: chance is refused"
TABLES = "other tables and joins are refused: a query reads the stream, and lookups by JOIN ... USING (key)"
GROUPINGS = "ROLLUP, or one release for each grouping"
ALL_STATISTICS = "release AVG, VARIANCE and QUANTILE of the number instead"


def _spread(reason: str, *keys: str) -> dict[str, str]:
    return dict.fromkeys(keys, reason)


NODE_REASONS: dict[str, str] = {  # by the parser's key of a node, or of a part of a SELECT
    **_spread(SUBQUERIES, "subquery", "exists", "query"),
    **_spread(
        WINDOWS,
        *("window", "windowspec", "lag", "lead", "rownumber", "rank", "denserank", "percentrank", "cumedist", "ntile"),
        *("firstvalue", "lastvalue", "nthvalue", "windows"),
    ),
    "having": "HAVING would tell which groups exist: filter the releases instead",
    "with_": "WITH is refused: a release is one SELECT",
    "distinct": "DISTINCT is read only as COUNT(DISTINCT column)",
    "limit.limit_options": "LIMIT must be a whole number of groups, such as LIMIT 10",
    "limit.expressions": "LIMIT ... BY is refused: the largest of all groups are ranked together",
    "fetch": f"FETCH is refused: {LARGEST_ADVICE}",
    "offset": "OFFSET is refused: take LIMIT for all ranks that you need, and skip the first of them",
    "qualify": "QUALIFY is refused: for the largest groups, write ORDER BY COUNT(*) DESC LIMIT 10",
    **{
        key: f"{key.upper()} is refused: make two releases, or one with OR in WHERE"
        for key in ("union", "except", "intersect")
    },
    "star": "* is read only as COUNT(*): name the columns",
    "columns": "* is read only as COUNT(*): name the columns",
    "all": "GROUP BY ALL is refused: name the columns",
    "cube": f"CUBE is refused: {GROUPINGS}",
    "groupingsets": f"GROUPING SETS are refused: {GROUPINGS}",
    "grouping_sets": f"GROUPING SETS are refused: {GROUPINGS}",
    "grouping": "GROUPING is refused: each group of a release has its level",
    "filter": "FILTER is refused but after an aggregate: COUNT(*) FILTER (WHERE condition)",
    "withingroup": "WITHIN GROUP is read only as PERCENTILE_CONT(q) WITHIN GROUP (ORDER BY x)",
    "intdiv": "// is refused: use FLOOR(a / b)",
    **_spread(PARAMETERS, "placeholder", "parameter", "sessionparameter"),
    "into": "INTO is refused: a release writes to its sinks",
    "sample": "samples are refused: every event counts",
    "tablesample": "samples are refused: every event counts",
    **_spread(TABLES, "lateral", "laterals", "values", "method", "pivot", "pivots", "explode", "generateseries"),
    "unnest": TABLES,
    **_spread(
        f"|| and CONCAT are refused, {TEXTS}: group by both columns", *("dpipe", "concat", "concatws", "safeconcat")
    ),
    **_spread(
        TEXTS,
        *("substring", "left", "right", "trim", "length", "replace", "split", "splitpart", "strposition", "pad"),
        *("reverse", "initcap", "repeat", "chr", "ascii", "translate", "hex", "md5", "sha", "sha2", "levenshtein"),
        *("substringindex", "space", "stuff", "unicode", "charlength", "soundex"),
    ),
    **_spread("use LIKE 'beginning%'", "startswith"),
    **_spread("use LIKE '%end'", "endswith"),
    **_spread("use LIKE '%middle%'", "contains"),
    **_spread(
        PATTERNS,
        *(
            "regexplike",
            "regexpilike",
            "regexpextract",
            "regexpextractall",
            "regexpreplace",
            "regexpcount",
            "similarto",
        ),
        *("glob", "regexpsplit", "regexpinstr", "regexpfullmatch"),
    ),
    **_spread(
        LISTS,
        *("jsonextract", "jsonextractscalar", "jsonbextract", "bracket", "array", "struct", "tuple", "map", "dot"),
        *("jsonpath", "jsonarray", "jsonobject", "parsejson", "arraysize", "arraycontains", "arrayany", "arrayconcat"),
        *("jsonarraycontains", "propertyeq", "lambda", "slice", "list", "jsonvalue", "jsontype", "arraytostring"),
    ),
    **_spread(
        CLOCK,
        *("currentdate", "currenttimestamp", "currenttime", "currentdatetime", "localtime", "localtimestamp"),
        *("currenttimestampltz", "systimestamp"),
    ),
    **_spread(
        INTERVALS,
        *("interval", "dateadd", "datesub", "datediff", "timestampadd", "timestampsub", "timestampdiff", "tsordsadd"),
        *("tsordsdiff", "datetimeadd", "datetimesub", "datetimediff", "timeadd", "timesub", "timediff", "addmonths"),
        *("lastday", "monthsbetween", "age", "makeinterval"),
    ),
    **_spread(FORMATS, "timetostr", "tochar", "dayname", "monthname", "timetounix", "unixtotime", "strtotime"),
    **_spread(FORMATS, "strtodate", "totimestamp", "todays", "strtounix", "timestampfromparts", "datefromparts"),
    "datebin": BUCKETS,
    "attimezone": f"AT TIME ZONE is refused: {ZONES}",
    "converttimezone": ZONES,
    **_spread(f"powers are refused, since they overflow: write x * x ({MATHS.partition(': ')[2]})", "pow"),
    **_spread(
        MATHS,
        *("sqrt", "ln", "log", "exp", "cbrt", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "factorial"),
        *("degrees", "radians", "cot", "sinh", "cosh", "tanh"),
    ),
    "sign": "use CASE WHEN x > 0 THEN 1 WHEN x < 0 THEN -1 ELSE 0 END",
    "trunc": "use FLOOR(x), CEIL(x) or ROUND(x, digits), or date_trunc('day', time)",
    **_spread(
        BITS,
        *("bitwiseand", "bitwiseor", "bitwisexor", "bitwisenot", "bitwiseleftshift", "bitwiserightshift", "xor"),
        *("bitwiseandagg", "bitwiseoragg", "bitwisexoragg", "bitwisecount"),
    ),
    **_spread(EVENTS, "first", "last", "anyvalue", "argmin", "argmax", "ignorenulls", "respectnulls", "nth"),
    **_spread(LISTINGS, "arrayagg", "groupconcat", "arrayuniqueagg", "jsonarrayagg", "jsonobjectagg", "approxtopk"),
    "mode": "MODE is refused: group by the column and COUNT(*), the largest group is the mode",
    **_spread(SHARES, "logicaland", "logicalor"),
    **_spread(
        MOMENTS,
        *("corr", "covarpop", "covarsamp", "regrslope", "regrintercept", "regrr2", "regravgx", "regravgy", "regrcount"),
    ),
    **_spread(POPULATION, "stddevpop", "variancepop"),
    **_spread(ALL_STATISTICS, "kurtosis", "skewness"),
    "approxquantiles": QUANTILES,
    "any": "ANY is refused: use x IN (literals)",
    **_spread(DISTINCTS, "hll", "approxcountdistinct"),
    **_spread(CHANCE, "rand", "randn", "uuid", "randstr"),
    "collate": "COLLATE is refused: use LOWER(column)",
    "nullsafeeq": "IS NOT DISTINCT FROM is refused: use x = y OR (x IS NULL AND y IS NULL)",
    "nullsafeneq": "IS DISTINCT FROM is refused: use x <> y OR (x IS NULL) <> (y IS NULL)",
    "symmetric": "BETWEEN SYMMETRIC is refused: write the lower end first",
    "escape": "ESCAPE is refused: % is any text and _ any character",
    "try": "TRY is refused: no expression fails, errors are NULL",
    "decode": "use CASE x WHEN value THEN result END",
    "tsordstodate": "use date_trunc('day', time)",
    "weekstart": "weeks begin on Monday",
}
FUNCTION_REASONS: dict[str, str] = {  # by the name of a function that the parser does not know
    "top": LARGEST_ADVICE,
    **_spread(CLOCK, "now", "getdate", "sysdate", "curdate", "curtime", "today", "transaction_timestamp", "utc_date"),
    **_spread("use IF(condition, x, y) or CASE", "iff", "iif", "nvl2", "choose"),
    "isnull": "use x IS NULL",
    "mean": "use AVG(x)",
    **_spread("use STDDEV(x)", "std", "stdevp"),
    **_spread("use VARIANCE(x)", "var", "varp"),
    **_spread(POPULATION, "stddevpop", "varpop"),
    "total": "use SUM(x)",
    **_spread(DISTINCTS, "uniq", "count_distinct", "approx_unique", "uniqexact"),
    **_spread(QUANTILES, "approx_percentile", "percentile", "percentile_approx", "quantile_approx", "median_approx"),
    "histogram": "group by FLOOR(x / 10) * 10 and COUNT(*)",
    "width_bucket": "group by FLOOR(x / 10) * 10 and COUNT(*)",
    **_spread(ALL_STATISTICS, "entropy", "mad", "product", "geomean", "sem"),
    **_spread(FORMATS, "date_format", "format_datetime", "to_date", "parse_date", "formatdatetime"),
    **_spread("use date_trunc('day', time)", "todate", "tostartofday", "tostartofhour", "tostartofmonth", "date_floor"),
    **_spread("use EXTRACT(part FROM time)", "datepart", "datename", "todayofweek", "tohour"),
    **_spread(LISTS, "list_sum", "list_value", "row", "json_value", "json_query", "get_json_object", "element_at"),
    **_spread(SHARES, "every", "any", "some"),
    **_spread(CHANCE, "rand", "newid", "gen_random_uuid"),
    **_spread(EVENTS, "any", "head", "latest", "earliest"),
    **_spread(TEXTS, "len", "instr", "charindex", "locate", "mid", "substr", "strpos", "char_length"),
    **_spread(PATTERNS, "regexp_like", "regexp_substr", "match"),
    "string_to_array": LISTS,
}
CAST_HINT = "use DOUBLE, TEXT or BOOLEAN, and FLOOR, CEIL or ROUND"


def explain_node(node: exp.Expr) -> str:
    """Return the refusal of a node that is not in the dialect."""
    reason = NODE_REASONS.get(node.key)
    shown = show_node(node)
    if reason is None:
        return f"{shown} is not in the dialect (see docs/sql.md)"
    return reason if is_complete(reason) else f"{shown} is refused: {reason}"


def explain_function(name: str) -> str | None:
    """Return the refusal of a function that the parser does not know, if it has one."""
    reason = FUNCTION_REASONS.get(name.lower())
    return reason and (reason if is_complete(reason) else f"{name.upper()} is refused: {reason}")


def explain_word(word: str) -> str:
    """Return the refusal of a part of a SELECT, or of the first word of another statement."""
    return NODE_REASONS.get(
        word, f"{word.strip('_').replace('_', ' ').upper()} is not in the dialect (see docs/sql.md)"
    )


def is_complete(reason: str) -> bool:
    """Return whether a reason says itself what is refused."""
    return " refused" in reason or " read only" in reason or " would tell " in reason


def show_node(node: exp.Expr) -> str:
    """Return the name of a called function, or the text of an expression, as SQL spells it."""
    text = node.sql(dialect="duckdb", comments=False, unsupported_level=ErrorLevel.IGNORE)
    call = CALL_PATTERN.match(text)
    if isinstance(node, exp.Func) and call:
        return call[1]
    return text if len(text) <= MAX_SHOWN_CHARS else f"{text[: MAX_SHOWN_CHARS - 4]} ..."
