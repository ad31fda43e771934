"""Mappers: microseconds for each record, batches included, and nanoseconds for each step.

    python benchmarks/mappers.py

Bars: 1 us for about 30 steps over four columns of numbers, 3 us with a column of text. The best of five runs.
"""

from time import perf_counter

import numpy as np

from streamgauge.config.mapper import MapperSettings
from streamgauge.engines.duckdb.connection import DuckConnection
from streamgauge.engines.duckdb.pairs import PairSource
from streamgauge.mapreduce.columns import RecordColumn, build_column, read_record
from streamgauge.mapreduce.executor import MapperExecutor
from streamgauge.mapreduce.interpreter import run_record
from streamgauge.mapreduce.parser import parse_mapper
from streamgauge.mapreduce.program import ValueKind

RECORDS = 400_000
NUMBERS = """
def mapper(a, b, c, d):
    total = a * b + c
    if total > 100 and d < 50:
        total = total - sqrt(abs(d))
    for i in range(3):
        total += (a - i) * d
    if c > b:
        emit("high", min(total, 1000))
    else:
        emit("low", max(total, 0))
"""
TEXTS = """
def mapper(url, a, b, c):
    path = url.lower()
    if path.startswith("/news"):
        emit("news", a)
    elif path.startswith("/shop") or "cart" in path:
        emit("shop", a + b)
    else:
        emit("other", c)
"""
WORST = """
def mapper(a):
    while a == a:
        a += 1
"""


def draw_columns(noise: np.random.Generator) -> tuple[dict[str, RecordColumn], list[str]]:
    columns: dict[str, RecordColumn] = {name: noise.uniform(0, 100, RECORDS) for name in "abcd"}
    pages = [f"/{kind}/{number}/page.html" for kind in ("news", "shop", "help", "Other") for number in range(25)]
    texts: list[str] = noise.choice(pages, RECORDS).tolist()
    return columns | {"url": build_column("text", texts)}, texts


def time_run(executor: MapperExecutor, columns: dict[str, RecordColumn]) -> float:
    best = float("inf")
    for _ in range(5):
        begin = perf_counter()
        executor.run(columns)
        best = min(best, perf_counter() - begin)
    return best


def time_engine(texts: list[str]) -> float:
    """Return the seconds of a record from rows in DuckDB to a table of pairs, and back."""
    columns: tuple[tuple[str, ValueKind], ...] = (("url", "text"), ("a", "number"), ("b", "number"), ("c", "number"))
    mapper = MapperSettings("m", TEXTS, columns, ("news", "shop", "other"), max_pairs=2)
    connection = DuckConnection("UTC", "600MB", None, {})
    rows = {"url": np.array(texts, object), **{name: np.arange(float(len(texts))) for name in "abc"}}
    connection.register("given", {"$tick": np.ones(len(texts), np.int64), **rows})
    source, best = PairSource(connection, mapper, constant_work=False), float("inf")
    connection.run("CREATE TABLE typed AS SELECT * FROM given")
    for _ in range(3):
        begin = perf_counter()
        for pairs in source.iterate_tables("typed", "true"):
            connection.run(f'SELECT "$pair key", count(*), sum(value) FROM {pairs} GROUP BY ALL')
        best = min(best, perf_counter() - begin)
    connection.close()
    return best / len(texts)


def main() -> None:
    columns, texts = draw_columns(np.random.default_rng(1))
    kinds: dict[str, ValueKind] = {"url": "text", "a": "number", "b": "number", "c": "number", "d": "number"}
    for name, source, keys in (("numbers", NUMBERS, ["high", "low"]), ("text", TEXTS, ["news", "shop", "other"])):
        program = parse_mapper(source, kinds, keys, max_pairs=2, max_steps=10_000)
        used = {column: columns[column] for column, _ in program.columns}
        steps = np.mean([run_record(program, read_record(used, place)).steps for place in range(1000)])
        seconds = time_run(MapperExecutor(program), used)
        print(f"{name:8} {seconds / RECORDS * 1e6:.3f} us a record, {steps:.1f} steps")
    begin = perf_counter()
    build_column("text", texts)
    print(f"{'':8} {(perf_counter() - begin) / RECORDS * 1e6:.3f} us more, to encode texts of Python")
    print(f"DuckDB   {time_engine(texts) * 1e6:.3f} us a record from its typed rows to the sums, with text")
    program = parse_mapper(WORST, kinds, ["x"], max_steps=10_000)
    few: dict[str, RecordColumn] = {"a": np.arange(4000.0)}
    for constant in (False, True):
        seconds = time_run(MapperExecutor(program, constant_work=constant), few)
        print(f"endless  {seconds / 4000 / 10_000 * 1e9:.3f} ns a step, constant work {constant}")


if __name__ == "__main__":
    main()
