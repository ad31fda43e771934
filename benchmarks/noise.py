"""Benchmark of noise draws: ours, OpenDP (bulk and single), NumPy's unsafe floats.

Run with `python benchmarks/noise.py`. Times are the minimum of several runs, in nanoseconds per draw.
NumPy's floats are for comparison only: they are not private.
"""

from collections.abc import Callable
from fractions import Fraction
from time import perf_counter
from typing import Any

import numpy as np
import opendp.prelude as dp

from streamgauge.noise import SecureNoise

SCALES = (1, 20, 100, 10_000)
BULK = 1 << 20
ROW = "{:<9} {:>7} {:>9.1f} {:>11.0f} {:>12.0f} {:>9.1f} {:>11.0f}x {:>10.2f}x {:>12.0f}"
HEADER = "law         scale   ours ns  OpenDP bulk OpenDP single  NumPy ns  OpenDP/ours  ours/NumPy  ours single"


def time_draw(draw: Callable[[], object], draws: int, runs: int) -> float:
    """Return nanoseconds per draw, the minimum of `runs`."""
    draw()
    times = []
    for _ in range(runs):
        start = perf_counter()
        draw()
        times.append(perf_counter() - start)
    return min(times) / draws * 1e9


def build_opendp(kind: str, scale: int) -> tuple[Any, Any]:
    """Build OpenDP's measurements of a vector and of a single integer."""
    distance = dp.l1_distance(T=int) if kind == "laplace" else dp.l2_distance(T=float)
    single = dp.absolute_distance(T=int) if kind == "laplace" else dp.absolute_distance(T=float)
    make = dp.m.make_laplace if kind == "laplace" else dp.m.make_gaussian
    domain = dp.atom_domain(T=int)
    return make(dp.vector_domain(domain), distance, scale=float(scale)), make(domain, single, scale=float(scale))


def repeat_call(call: Callable[[], object], count: int) -> Callable[[], None]:
    def run() -> None:
        for _ in range(count):
            call()

    return run


def build_row(kind: str, scale: int) -> str:
    noise, unsafe = SecureNoise(), np.random.default_rng()
    parameter = Fraction(scale) if kind == "laplace" else Fraction(scale) ** 2
    exact = getattr(noise, kind)
    floats = unsafe.laplace if kind == "laplace" else unsafe.normal
    bulk, single = build_opendp(kind, scale)
    ours = time_draw(lambda: exact(parameter, BULK), BULK, 15)
    theirs = time_draw(lambda: bulk([0] * 10_000), 10_000, 3)
    one_by_one = time_draw(repeat_call(lambda: single(0), 200), 200, 3)
    numpy_floats = time_draw(lambda: floats(0.0, float(scale), BULK), BULK, 15)
    our_single = time_draw(repeat_call(lambda: exact(parameter, 1), 20_000), 20_000, 5)
    ratios = theirs / ours, ours / numpy_floats
    return ROW.format(kind, scale, ours, theirs, one_by_one, numpy_floats, *ratios, our_single)


def main() -> None:
    dp.enable_features("contrib")
    print(HEADER)
    for kind in ("laplace", "gaussian"):
        for scale in SCALES:
            print(build_row(kind, scale), flush=True)


if __name__ == "__main__":
    main()
