"""Writes the error table of docs/continual.md from the mechanisms' own predictions.

python docs/error_table.py
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from streamgauge import Pure, Zcdp
from streamgauge.continual import (
    Binary,
    BridgeTree,
    BufferedToeplitz,
    EndlessBridge,
    Hybrid,
    Kary,
    LinearMechanism,
    Segments,
    SimpleII,
    SmoothBinary,
    SquareRoot,
    SubtractiveTree,
    TwoLevel,
    TwoPart,
    UnboundedToeplitz,
)
from streamgauge.privacy import Loss

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from accuracy import lower_bound

PAGE = Path(__file__).parent / "continual.md"
BEGIN, END = "<!-- error table: begin -->\n", "<!-- error table: end -->\n"
HORIZONS = (2**10, 2**16, 2**20)
ROWS: dict[str, Callable[[Loss, int], LinearMechanism[Any]]] = {
    "`SimpleII` (no end, pan-private)": lambda loss, T: SimpleII(loss),
    "`TwoLevel`": lambda loss, T: TwoLevel(loss, horizon=T),
    "`Binary`": lambda loss, T: Binary(loss, horizon=T),
    "`Binary`, refined": lambda loss, T: Binary(loss, horizon=T, refine=True),
    "`Kary`": lambda loss, T: Kary(loss, horizon=T),
    "`BridgeTree`": lambda loss, T: BridgeTree(loss, horizon=T),
    "`SubtractiveTree`": lambda loss, T: SubtractiveTree(loss, horizon=T),
    "`SmoothBinary`": lambda loss, T: SmoothBinary(loss, horizon=T),
    "`SquareRoot`": lambda loss, T: SquareRoot(loss, horizon=T),
    "`BufferedToeplitz`": lambda loss, T: BufferedToeplitz(loss, horizon=T),
    "`BufferedToeplitz`, normalised, 6 buffers": lambda loss, T: BufferedToeplitz(
        loss, horizon=T, buffers=6, normalised=True
    ),
    "`Kary`, pan-private": lambda loss, T: Kary(loss, horizon=T, pan_private=True),
    "`TwoPart` (pan-private)": lambda loss, T: TwoPart(at_integer_orders(loss), horizon=T),
    "`TwoPart` (pan-private, no end)": lambda loss, T: TwoPart(at_integer_orders(loss)),
    "`Segments` (pan-private)": lambda loss, T: Segments(loss, horizon=T),
    "`Hybrid` (no end)": lambda loss, T: Hybrid(loss),
    "`EndlessBridge` (no end)": lambda loss, T: EndlessBridge(loss),
    "`Hybrid`, pan-private": lambda loss, T: Hybrid(loss, pan_private=True),
    "`UnboundedToeplitz` (no end)": lambda loss, T: UnboundedToeplitz(loss),
}


def at_integer_orders(loss: Loss) -> Loss:
    """Return the (epsilon, 10^-6) that a rho implies, for a mechanism that refuses the rho; a pure loss as it is."""
    return loss if isinstance(loss, Pure) else loss.as_approx("1e-6")


def shown(error: float) -> str:
    return f"{error:#.4g}" if error < 1000 else f"{error:.0f}"


def predicted(make: Callable[[Loss, int], LinearMechanism[Any]], loss: Loss, ticks: int) -> str:
    try:
        return shown(make(loss, ticks).rmse(ticks))
    except ValueError:
        return "-"


def lines() -> list[str]:
    heads = [f"{loss}, 2^{T.bit_length() - 1}" for loss in ("epsilon 1", "rho 1/2") for T in HORIZONS]
    table = [" | ".join(["mechanism", *heads]), "|".join(["---", *["---:"] * len(heads)])]
    for name, make in ROWS.items():
        cells = [predicted(make, loss, T) for loss in (Pure(1), Zcdp("1/2")) for T in HORIZONS]
        table.append(" | ".join([name, *cells]))
    table.append(" | ".join(["least of all factorisations", "", "", "", *(shown(lower_bound(T)) for T in HORIZONS)]))
    return [f"| {line} |\n" if "---" not in line else f"|{line}|\n" for line in table]


def main() -> None:
    before, rest = PAGE.read_text().split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text("".join([before, BEGIN, *lines(), END, after]))


if __name__ == "__main__":
    main()
