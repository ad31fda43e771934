"""Sizes and errors of a window of a whole program, from declarations only."""

from dataclasses import dataclass

import numpy as np

BLOCK_EXPONENT = 0.55  # blocks of n units: n to this power


@dataclass(frozen=True)
class ProgramPlan:
    """Sizes and errors of a window, from declarations only."""

    blocks: int
    min_blocks: int
    units: int | None
    min_units: int
    window_seconds: float  # from the end of a window to its release
    errors: list[float] | None  # RMSE of each output
    rank_errors: list[float] | None  # blocks, with probability 0.95 for all outputs

    def __str__(self) -> str:
        size = "" if self.units is None else f" of about {self.units / self.blocks:.0f} units"
        lines = [f"{self.blocks} blocks{size}, {self.window_seconds:g} s a window"]
        lines.append(f"at least {self.min_blocks} blocks: {self.min_units:,} units a window")
        if self.rank_errors is not None:
            lines.append("rank off by at most " + ", ".join(f"{each:.0f}" for each in self.rank_errors) + " blocks")
        if self.errors is not None:
            lines.append("RMSE " + ", ".join(f"{each:.3g}" for each in self.errors))
        return "\n".join(lines)


def count_blocks(units: int) -> int:
    """Return the blocks of a window of so many units."""
    return max(1, int(np.rint(units**BLOCK_EXPONENT)))


def count_units(blocks: int) -> int:
    """Return the fewest units of a window that have so many blocks.

    >>> count_units(158)
    9944
    """
    return int(np.ceil(blocks ** (1 / BLOCK_EXPONENT)))
