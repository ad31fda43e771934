"""Sketches beside datasketches (not private) and an exact counter: error, bytes, updates a second.

    python benchmarks/sketches.py            # a minute or two
    python benchmarks/sketches.py --quick    # a tenth of the events

Rates are in seconds of processor time, of one thread: the median of five batches. Bar: 5 M updates a second of 64-bit
items into 5 x 65,536 cells. Errors are root mean squares over the 100 largest items of a Zipf 1.1 stream.

The last table has private distinct counts of p-stable sketches for 50, 500 and 5,000 items: they carry no information.
"""

import argparse
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from time import process_time
from typing import Any

import numpy as np

import streamgauge as sg
from streamgauge.sketches import PStable, SketchTable, release_stable

try:
    import datasketches
except ImportError:
    datasketches = None

SEED, KEYS, TOP = 1, 10**6, 100
BATCHES = 5
APPROX = sg.Approx(1, "1/1000000")


def measure_rate(update: Callable[[Any], None], batch: Any) -> float:
    """Return millions of updates a second."""
    seconds = []
    for _ in range(BATCHES):
        begun = process_time()
        update(batch)
        seconds.append(process_time() - begun)
    return len(batch) / float(np.median(seconds)) / 1e6


def update_each(sketch: Any, items: Iterable[Any]) -> None:
    for item in items:
        sketch.update(item)


def draw_stream(events: int) -> np.ndarray:
    weights = np.arange(1.0, KEYS + 1) ** -1.1
    return np.random.default_rng(SEED).choice(KEYS, events, p=weights / weights.sum()).astype(np.int64)


def list_rates(events: int) -> Iterator[tuple[str, float]]:
    numbers = np.random.default_rng(SEED).integers(0, 2**62, events)
    texts = [f"user-{number}" for number in numbers[: events // 10].tolist()]
    table = build_table(5, 2**16)
    yield "CountSketch 5 x 65,536, 64-bit items", measure_rate(table.update, numbers)
    yield (
        "CountSketch 5 x 65,536, with weights",
        measure_rate(lambda items: table.update(items, np.ones(len(items), np.int64)), numbers),
    )
    yield "CountSketch 5 x 65,536, texts", measure_rate(table.update, texts)
    yield "FlipMerge, 64-bit items", measure_rate(sg.sketches.FlipMerge(sg.Pure(1)).start().update, numbers)
    zipf = draw_stream(events // 10)
    yield (
        "MisraGries 8,192, 64-bit items",
        measure_rate(sg.sketches.MisraGries(APPROX, counters=8192).start().update, zipf),
    )
    counts: Counter[int] = Counter()
    yield "exact counter, 64-bit items", measure_rate(counts.update, numbers[: events // 10].tolist())
    if datasketches is not None:
        theirs = datasketches.count_min_sketch(5, 2**16)
        yield (
            "datasketches count-min 5 x 65,536, 64-bit items",
            measure_rate(partial(update_each, theirs), numbers[: events // 10].tolist()),
        )
        frequent = datasketches.frequent_strings_sketch(13)
        yield ("datasketches frequent strings 8,192, texts", measure_rate(partial(update_each, frequent), texts))


def build_table(rows: int, columns: int) -> SketchTable:
    return sg.sketches.CountSketch(sg.Zcdp(1), horizon=1, rows=rows, columns=columns).table(sg.sketches.create_key())


def list_errors(events: int) -> Iterator[tuple[str, int, float]]:
    """Yield name, bytes and error over the largest items."""
    items = draw_stream(events)
    counts = np.bincount(items, minlength=KEYS)
    asked = np.argsort(-counts)[:TOP]
    exact = counts[asked]

    def error(values: Any) -> float:
        return float(np.sqrt(np.mean((np.asarray(values) - exact) ** 2)))

    yield "exact counter, rho 1/2", 16 * KEYS, sg.continual.choose(sg.Zcdp("1/2"), horizon=1).stddev(1)
    for rows, columns in ((5, 2**13), (17, 2**13), (5, 2**16)):
        claim = sg.sketches.CountSketch(sg.Zcdp("1/2"), horizon=1, rows=rows, columns=columns)
        size, run = 8 * rows * columns, claim.start()
        plain = claim.table(run.key)
        plain.update(items)
        yield f"CountSketch {rows} x {columns}, no noise", size, error(plain.estimate(asked))
        yield f"CountSketch {rows} x {columns}, rho 1/2", size, error(run.step(items).estimate(asked, 0).value)
    for rows in (5, 17):
        least = sg.sketches.CountMin(sg.Pure(1), rows=rows).start()
        least.update(items)
        yield f"CountMin {rows} x 8192, eps 1, least", 8 * rows * 2**13, error(least.release().estimate(asked))
    for size in (1024, 8192):
        table = sg.sketches.MisraGries(APPROX, counters=size).start()
        table.update(items)
        found = table.release().counts
        yield f"MisraGries {size}, eps 1", 40 * size, error([found.get(int(item), 0) for item in asked])
    if datasketches is not None:
        theirs = datasketches.count_min_sketch(5, 2**13)
        for item in items.tolist():
            theirs.update(item)
        estimates = [theirs.get_estimate(int(item)) for item in asked]
        yield "datasketches count-min 5 x 8192, not private", 8 * 5 * 2**13, error(estimates)


def list_distinct(events: int) -> Iterator[tuple[str, int, float]]:
    """Yield name, bytes and relative error of distinct counts."""
    number = events // 2
    flip = sg.sketches.FlipMerge(sg.Pure(1))
    run = flip.start()
    run.update(np.arange(number))
    yield "FlipMerge, eps 1", flip.memory_bytes(), run.release().estimate().value / number - 1
    if datasketches is not None:
        theirs = datasketches.hll_sketch(14)
        for item in range(number):
            theirs.update(item)
        yield "datasketches HLL 2^14, not private", 2**14, theirs.get_estimate() / number - 1


def list_stable(releases: int) -> Iterator[tuple[float, list[float]]]:
    """Yield p, and median estimates for 50, 500 and 5,000 of 5,000 items."""
    for p in (0.1, 0.25, 0.5):
        found = []
        for number in (50, 500, 5000):
            settings: dict[str, Any] = {"domain": 5000, "experimental": True}
            estimates = [
                release_stable(PStable(p=p, rows=101), range(number), sg.Pure(1), **settings) for _ in range(releases)
            ]
            found.append(float(np.median(estimates)))
        yield p, found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="a tenth of the events")
    events = 10**5 if parser.parse_args().quick else 10**6
    print(f"{'updates':<50} {'M/s':>8}")
    for name, rate in list_rates(events):
        print(f"{name:<50} {rate:>8.2f}")
    print(f"\n{f'top {TOP} of {events:,} events':<50} {'bytes':>12} {'error':>9}")
    for name, size, error in list_errors(events):
        print(f"{name:<50} {size:>12,} {error:>9.2f}")
    print(f"\n{f'{events // 2:,} distinct items':<50} {'bytes':>12} {'relative':>9}")
    for name, size, error in list_distinct(events):
        print(f"{name:<50} {size:>12,} {error:>9.4f}")
    print("\nprivate p-stable release, 101 rows, epsilon 1       50      500    5,000 of 5,000 items")
    for p, found in list_stable(3):
        print(f"{f'p = {p}':<46}" + "".join(f"{each:>9,.0f}" for each in found))


if __name__ == "__main__":
    main()
