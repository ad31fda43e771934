"""Speed of each counter in nanoseconds per group and tick.

Peers are a plain Python loop and jax-privacy. The floor is the least possible cost: adding one int64 vector in
NumPy, plus the draws of the mechanism in one call. Width 1 and 1,000 are fed in blocks, width 1,000,000 is stepped
tick by tick.

    python benchmarks/counters.py             # some minutes; prints jax-privacy's rows if it is installed
"""

import importlib.util
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np

import streamgauge as sg
from streamgauge.continual import (
    Binary,
    BridgeTree,
    BufferedToeplitz,
    EndlessBridge,
    ExponentialDecay,
    Hybrid,
    Kary,
    LinearMechanism,
    PolynomialDecay,
    Segments,
    SimpleI,
    SimpleII,
    SmoothBinary,
    SquareRoot,
    SubtractiveTree,
    TwoLevel,
    UnboundedToeplitz,
    WindowBridge,
    WindowSum,
)
from streamgauge.noise import SecureNoise
from streamgauge.testing.noise import CountedNoise, SilentNoise

T = 2**20
PURE, RHO = sg.Pure(1), sg.Zcdp("1/2")
WIDE, STEPS = 10**6, 32


@dataclass(frozen=True)
class Subject:
    name: str
    mechanism: LinearMechanism[Any]
    allowed: int | None = None  # numbers a group, where the bar names them
    wide: bool = True  # whether a million groups fit in memory
    warm: int = 1  # steps until a run's memory has been touched once


def build_subjects() -> list[Subject]:
    binary, kary, subtractive = (Binary(PURE, horizon=T), Kary(PURE, horizon=T), SubtractiveTree(PURE, horizon=T))
    return [
        Subject("Simple I", SimpleI(PURE, horizon=T)),
        Subject("Simple II", SimpleII(PURE), 1 + 4),
        Subject("Two-level", TwoLevel(PURE, horizon=T), 2 + 4),
        Subject("Binary", binary, binary.levels + 4),
        Subject("Binary, zCDP", Binary(RHO, horizon=T), binary.levels + 4),
        Subject("Binary refined", Binary(PURE, horizon=T, refine=True)),
        Subject("Binary pan-private", Binary(PURE, horizon=T, pan_private=True), binary.levels + 4),
        Subject("k-ary", kary, kary.levels + 4),
        Subject("k-ary pan-private", Kary(PURE, horizon=T, pan_private=True), kary.levels + 4),
        Subject("Subtractive tree", subtractive, (subtractive.branching + 2) * subtractive.levels, warm=64),
        Subject("Bridge tree", BridgeTree(PURE, horizon=T), warm=80),
        Subject("Endless bridge", EndlessBridge(PURE), warm=80),
        Subject("Smooth binary", SmoothBinary(PURE, horizon=T)),
        Subject("Segments", Segments(PURE, horizon=T)),
        Subject("Hybrid", Hybrid(PURE), warm=100),
        Subject("Toeplitz, 4 buffers", BufferedToeplitz(RHO, horizon=T)),
        Subject("Unbounded Toeplitz", UnboundedToeplitz(RHO), 64),
        Subject("Square root", SquareRoot(RHO, horizon=T), wide=False),
        Subject("Window sum, 60", WindowSum(PURE, window=60), warm=128),
        Subject("Window bridge, 60", WindowBridge(PURE, window=60), warm=128),
        Subject("Exponential decay, pure", ExponentialDecay(PURE, decay="0.99")),
        Subject("Exponential decay, zCDP", ExponentialDecay(RHO, decay="0.99")),
        Subject("Polynomial decay, zCDP", PolynomialDecay(RHO, exponent=1, horizon=T), wide=False),
    ]


def time_call(act: Callable[[], object], repeat: int = 3) -> float:
    best = float("inf")
    for _ in range(repeat):
        start = time.perf_counter()
        act()
        best = min(best, time.perf_counter() - start)
    return best


def time_feed(mechanism: LinearMechanism[Any], ticks: int, width: int) -> float:
    block = np.ones((ticks, width), np.int64)
    return time_call(lambda: mechanism.start(width).feed(block), 2)


def time_step(mechanism: LinearMechanism[Any], warm: int) -> float:
    """Return the seconds of a step of a million groups, the better of two runs."""
    values, best = np.ones(WIDE, np.int64), float("inf")
    for _ in range(2):
        run = mechanism.start(WIDE)
        for _ in range(warm):
            run.step(values)
        start = time.perf_counter()
        for _ in range(STEPS):
            run.step(values)
        best = min(best, time.perf_counter() - start)
    return best / STEPS


def time_floor(mechanism: LinearMechanism[Any], warm: int) -> float:
    """Return the mean seconds of the addition and the draws of a step."""
    values = np.ones(WIDE, np.int64)
    counted = CountedNoise(SilentNoise())
    run = mechanism.start(1, counted)
    run.feed(np.ones((warm, 1), np.int64))
    before = counted.total
    run.feed(np.ones((STEPS, 1), np.int64))
    kind, scale, _ = counted.requests[-1]
    draw, count = getattr(SecureNoise(), kind), (counted.total - before) / STEPS
    draw(scale, WIDE)
    return time_call(lambda: np.add(values, values, out=values)) + count * time_call(lambda: draw(scale, WIDE))


def time_textbook() -> float:
    """Return seconds per group and tick of the textbook Binary in a Python loop."""
    levels, scale, ticks = T.bit_length(), T.bit_length(), 20000
    exact, noisy = [0] * levels, [0.0] * levels

    def laplace() -> float:
        return scale * random.choice((-1, 1)) * -log(1 - random.random())

    def count() -> None:
        for t in range(1, ticks + 1):
            level = (t & -t).bit_length() - 1
            exact[level] = sum(exact[:level]) + 1
            for below in range(level):
                exact[below], noisy[below] = 0, 0.0
            noisy[level] = exact[level] + laplace()
            sum(noisy[j] for j in range(levels) if t >> j & 1)

    return time_call(count) / ticks


def time_jax_privacy(width: int, ticks: int = 64) -> float:
    """Return seconds per group and tick of jax-privacy's buffered Toeplitz noise."""
    import jax
    from jax_privacy.matrix_factorization import buffered_toeplitz as blt
    from jax_privacy.matrix_factorization import streaming_matrix

    jax.config.update("jax_enable_x64", True)
    ours = blt.BufferedToeplitz.build(
        buf_decay=[0.89774676, 0.9970969, 0.99992177, 0.99999828][::-1],
        output_scale=[0.324651, 0.0607501, 0.00999874, 0.00199071][::-1],
    )
    matrix = streaming_matrix.prefix_sum() @ ours.inverse_as_streaming_matrix()

    def step(carry: Any, key: Any) -> Any:
        state, total = carry
        noise, state = matrix.multiply_next(jax.random.normal(key, (width,), dtype="float64"), state)
        total = total + 1
        return (state, total), (total + noise).sum()

    keys = jax.random.split(jax.random.key(0), ticks)
    start = (matrix.init_multiply(np.zeros(width)), np.zeros(width))
    scan = jax.jit(lambda carry, keys: jax.lax.scan(step, carry, keys))
    jax.block_until_ready(scan(start, keys))
    return time_call(lambda: jax.block_until_ready(scan(start, keys))) / ticks / width


def build_line(subject: Subject) -> str:
    """Build the line of a mechanism in the table."""
    mechanism = subject.mechanism
    whole = time_feed(mechanism, T, 1)
    narrow = time_feed(mechanism, 2048, 1000) / 2048 / 1000 * 1e9
    shown = f"{'(O(t) memory)':>26}"
    if subject.wide:
        wide, least = (
            time_step(mechanism, subject.warm) / WIDE * 1e9,
            time_floor(mechanism, subject.warm) / WIDE * 1e9,
        )
        shown = f"{wide:>9.1f} {least:>9.1f} {wide / least:>6.2f}"
    allowed = "" if subject.allowed is None else f"{subject.allowed:>8}"
    return f"{subject.name:<26} {whole:>8.2f} s {narrow:>9.1f} {shown} {mechanism.memory():>8} {allowed}"


def main() -> None:
    print("feed of 2^20 ticks at width 1 (bar: 2 s); ns per group and tick (bar at width 10^6: 2.5 floors);")
    print("memory of a group in numbers of 8 bytes, and the allowed memory\n")
    titles = ["feed 2^20", "10^3 ns", "10^6 ns", "floor ns", "ratio", "numbers", "allowed"]
    print(f"{'mechanism':<26} {titles[0]:>10} " + "".join(f"{title:>9} " for title in titles[1:]))
    for subject in build_subjects():
        print(build_line(subject), flush=True)
    print(f"\ntextbook Binary in a Python loop, float noise: {time_textbook() * 1e9:.0f} ns per group and tick")
    if importlib.util.find_spec("jax_privacy") is None:
        print("jax-privacy is not installed: `make bench` installs it")
        return
    for width in (1, 1000, WIDE):
        nanoseconds = time_jax_privacy(width) * 1e9
        print(f"jax-privacy, 4 buffers, jitted, float normals, width {width:>7}: {nanoseconds:>9.1f} ns")


if __name__ == "__main__":
    main()
