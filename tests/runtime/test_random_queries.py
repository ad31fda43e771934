"""Without noise, a release equals the answer of a plain engine: random queries, level by level.

Means of a few values are shrunk by what the noise would have been: the loss is large, so that two suffice.
"""

import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import duckdb
import pytest

from streamgauge.config.errors import InvalidReleaseError
from tests.support.pipelines import TICKS, pipeline, run, tables, write
from tests.support.random_queries import COLUMNS, SITES, Asked, Asker, events, plain_database

SEEDS = (1, 2, 3, 4)
QUERIES = 24  # of each seed
LOSS = 10**4
Key = tuple[int, int, tuple[Any, ...]]  # tick, number of grouped columns, their labels


def answered(folder: Path, asked: list[Asked]) -> list[dict[Key, list[float]]]:
    """Return all releases of one pipeline."""
    releases = [{"name": f"r{i}", "sql": each.sql, "window": "each", "epsilon": LOSS} for i, each in enumerate(asked)]
    made = pipeline(folder, declared(*releases))
    run(made)
    return [
        {
            (one.tick, len(place.labels), tuple(label for _, label in place.labels)): one.value[:, i].tolist()
            for one in made.releases(release["name"])
            for i, place in enumerate(one.shape.groups)
        }
        for release in releases
    ]


def declared(*releases: dict[str, Any]) -> dict[str, Any]:
    made = tables(*releases, columns=COLUMNS, budget={"epsilon": LOSS * max(1, len(releases))})
    return made | {"lookup": {"sites": {"file": "s.csv", "on": "s"}}}


def in_dialect(folder: Path, asked: Iterator[Asked]) -> Iterator[Asked]:
    """Yield queries that are not refused for unbounded groups or numbers."""
    for each in asked:
        try:
            plan = pipeline(folder, declared({"name": "r", "sql": each.sql, "epsilon": LOSS})).plan()
        except (InvalidReleaseError, ValueError):
            continue
        if not plan.refusals:
            yield each


def plain(database: duckdb.DuckDBPyConnection, asked: Asked) -> dict[Key, list[tuple[float, int]]]:
    """Return each aggregate, and the number of its values."""
    found = {}
    for level in asked.levels:
        for tick, *row in database.execute(asked.plain(level)).fetchall():
            labels, texts = row[:level], row[level:]
            values, counts = texts[: len(texts) // 2], texts[len(texts) // 2 :]
            found[tick, level, tuple(labels)] = list(zip([float(v or 0) for v in values], counts, strict=True))
    return found


def differences(
    asked: Asked, released: dict[Key, list[float]], texts: dict[Key, list[tuple[float, int]]]
) -> list[object]:
    """Return the differences from the plain answer. A group without events has counts and sums of 0."""
    missing: list[object] = [key for key in texts if key not in released]
    nothing = [(0.0, 0)] * len(asked.aggregates)
    return missing + [
        (aggregate, key, value, wanted)
        for key, values in released.items()
        for aggregate, value, (wanted, count) in zip(asked.aggregates, values, texts.get(key, nothing), strict=True)
        if (count > 1 or not aggregate.startswith("AVG")) and abs(value - wanted) > 1e-6 * max(1, abs(wanted))
    ]


@pytest.mark.one_of_each
@pytest.mark.parametrize("seed", SEEDS)
def test_random_queries_are_answered_as_a_plain_engine_does(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    records = events(chance)
    write(tmp_path, records)
    (tmp_path / "s.csv").write_text(SITES)
    requested = list(islice(in_dialect(tmp_path, Asker(chance).queries()), QUERIES))
    found = answered(tmp_path, requested)
    with plain_database(records) as database:
        for each, released in zip(requested, found, strict=True):
            assert {tick for tick, *_ in released} == set(range(1, TICKS + 1))
            assert differences(each, released, plain(database, each)) == [], each.sql
