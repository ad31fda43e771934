"""One stream of 10,000 ticks, counted by seven mechanisms at epsilon = 1.

python examples/side_by_side.py [--picture demo.png]
"""

import argparse

import numpy as np

import streamgauge as sg

TICKS, SHOWN = 10_000, (1, 10, 100, 1000, 5000, 10_000)
MECHANISMS = {
    "Simple II": sg.continual.SimpleII(sg.Pure(1)),
    "Two-level": sg.continual.TwoLevel(sg.Pure(1), horizon=TICKS),
    "Binary": sg.continual.Binary(sg.Pure(1), horizon=TICKS),
    "Best, no end": sg.continual.choose(sg.Pure(1)),
    "Best, pan-private": sg.continual.choose(sg.Pure(1), horizon=TICKS, pan_private=True),
    "Best": sg.continual.choose(sg.Pure(1), horizon=TICKS),
    "Best, delta = 1e-6": sg.continual.choose(sg.Approx(1, 1e-6), horizon=TICKS),
}


def build_visits() -> np.ndarray:
    """Build synthetic visits with a daily rhythm and one peak."""
    tick = np.arange(TICKS)
    rate = 1.5 + 1.2 * np.sin(tick / 288 * 2 * np.pi) + 2.5 * np.exp(-(((tick - 6500) / 700) ** 2))
    return np.random.default_rng(2026).poisson(rate)


def print_table(truth: np.ndarray, released: dict[str, np.ndarray]) -> None:
    print(f"{'tick':<26}" + "".join(f"{t:>16,}" for t in SHOWN))
    print(f"{'true count':<26}" + "".join(f"{truth[t - 1]:>16,}" for t in SHOWN))
    for name, mechanism in MECHANISMS.items():
        bars = [(released[name][t - 1], mechanism.interval(0, t)[1]) for t in SHOWN]
        print(f"{name:<26}" + "".join(f"{value:>9,.0f} ±{half:>5.0f}" for value, half in bars))
    print("\nEach interval covers the truth with probability 0.95 or more. Its width does not depend on the data.")


def save_picture(path: str, truth: np.ndarray, released: dict[str, np.ndarray]) -> None:
    from pictures import save_errors

    save_errors(path, {name: (released[name] - truth, MECHANISMS[name]) for name in MECHANISMS})
    print(f"picture: {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description="One stream, counted by several mechanisms.")
    parser.add_argument("--picture", metavar="FILE", help="save a plot (needs the extra [plot])")
    path = parser.parse_args().picture
    stream = build_visits()
    released = {name: mechanism.start().feed(stream) for name, mechanism in MECHANISMS.items()}
    print_table(np.cumsum(stream), released)
    if path:
        save_picture(path, np.cumsum(stream), released)


if __name__ == "__main__":
    main()
