"""Buffered linear Toeplitz: running counts under noise that buffers correlate.

The release at tick t is the exact sum of the noisy items y_1..y_t, and y_s = x_s + u_s with u = C^-1 z.
Later draws cancel most of each draw, so that the sum of t of them stays small. C is a sum
of `buffers` exponentials,

    c_0 = 1,  c_k = sum_i weight_i (1 - rate_i)^(k-1),

fitted to the horizon. A run stores 2 buffers + 2 numbers per group for any horizon. Its error is
close to that of the square-root factorisation, which stores everything.

With `normalised=True` late ticks are measured on a larger scale, so that all columns of C are as long as the first.
The error is 2 to 3 % smaller for the same loss (see `normalisation`). Off by default: `choose` compares both.

Privacy
    Neighbours: one unit moves one tick's vector by at most `bound` in L2, and one event at most 1024 groups
    (or the coordinates of a Sensitivity). The number of ticks is public.
    Promise: `loss` over the whole stream, even if values are chosen in view of past releases.
    Proof: see `continual.factorizations.encoder`. One unit moves C x by at most `sensitivity`, from the
    rationals that the run uses, rounded up. Fixed point adds at most `slack`. Both are charged. Units of
    n ticks are calibrated from the sum of the first n columns, which are the longest and overlap most. Under
    `normalised` an event at t moves the noise of tick t by m_t bound, and `normalisation` bounds any n scaled columns.
    Rounding is charged as before. The division by m_t takes a whole unit of data to a whole unit: post-processing.
    The proof fails with probability at most 2^overflow, below that of guessing the keystream's key.

Error
    Unbiased but for a rounding far below the noise. The variance at t is that of one draw times
    the squared norm of row t of A C^-1. At rho = 1/2 the root mean squared errors are 3.06, 4.40 and 5.32
    over 2^10, 2^16 and 2^20 ticks with 4 buffers, and 2.99, 4.32 and 5.26 if normalised (5.22 with
    6 buffers). No mechanism that factorises A has less than 2.91, 4.23 and 5.11. A normalised release is also rounded
    by at most t/2 grid points, which are below 2^-42 of the noise of a tick each.

Reference
    Dvijotham, McMahan, Pillutla, Steinke, Thakurta: Efficient and near-optimal noise generation for
    streaming differential privacy, 2024; McMahan, Xu, Zhang: A hassle-free algorithm for strong
    differential privacy in federated learning systems, 2024. Theirs fit the maximal error and add
    floating-point noise to the sum. Here the mean is fitted (1 % lower; the maximum is 2 % higher),
    parameters are rationals, and all is exact until noised.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from streamgauge.continual.factorizations.coefficients import (
    BUFFER_COUNTS,
    MAX_FITTED_TICKS,
    bounded_encoder,
    normalised_encoder,
)
from streamgauge.continual.factorizations.correlated import ReleaseError, RunningCount
from streamgauge.continual.factorizations.encoder import Encoder
from streamgauge.continual.factorizations.normalisation import (
    MAX_SCALE_BITS,
    ColumnScales,
    NormalisedResponse,
    build_scales,
)
from streamgauge.continual.factorizations.toeplitz import lower_triangle
from streamgauge.continual.mechanism import BoundedSettings
from streamgauge.continual.strategy import Strategy
from streamgauge.continual.validation import check_settings
from streamgauge.noise import Ints
from streamgauge.privacy.rationals import sqrt_up


@dataclass(frozen=True, kw_only=True)
class BufferedToeplitz(BoundedSettings, RunningCount):
    """Running counts over a stream of at most `horizon` ticks; see the module's claim."""

    MAX_HORIZON_TICKS: ClassVar[int] = MAX_FITTED_TICKS

    buffers: int = 4
    normalised: bool = False

    def __post_init__(self) -> None:
        check_settings(self, bounded=True)
        if self.horizon > MAX_FITTED_TICKS:
            raise ValueError(f"horizon must be at most 2**{MAX_FITTED_TICKS.bit_length() - 1}, got {self.horizon}")
        if self.buffers not in BUFFER_COUNTS:
            raise ValueError(f"buffers must be one of {', '.join(map(str, BUFFER_COUNTS))}, got {self.buffers}")
        self.check()

    @property
    def last_tick(self) -> int:
        return self.horizon

    @cached_property
    def encoder(self) -> Encoder:
        return (normalised_encoder if self.normalised else bounded_encoder)(self.buffers, self.horizon)

    @property
    def has_falling_overlaps(self) -> bool:
        return not self.normalised  # scaled columns are longer later: no proof is known

    @cached_property
    def scales(self) -> ColumnScales | None:
        """The scales of the columns, on the finest grid that divides the noise's."""
        if not self.normalised:
            return None
        finest = build_scales(self.encoder, self.horizon, MAX_SCALE_BITS)
        norm_squared = finest.norm_squared(min(self.unit.ticks, self.horizon))
        bits = self.find_grid_bits(sqrt_up(self.tick_sensitivity.l2_squared) * sqrt_up(norm_squared))
        return finest if bits >= MAX_SCALE_BITS else build_scales(self.encoder, self.horizon, bits)

    def norm_squared(self, ticks: int) -> Fraction:
        return self.scales.norm_squared(ticks) if self.scales else super().norm_squared(ticks)

    @cached_property
    def error(self) -> ReleaseError:
        return NormalisedResponse(self.response, self.scales) if self.scales else self.response

    def decoding_drift(self, tick: int) -> float:
        return tick / 2 if self.scales else 0.0  # half a grid point for each division

    def unscale(self, before: int, correlated: Ints) -> None:
        if self.scales:
            self.scales.divide(before, correlated)

    def matrices(self, ticks: int) -> Strategy:
        plain = super().matrices(ticks)
        if self.scales is None:
            return plain
        tops = self.scales.list_tops(0, ticks) / 2.0**self.scales.bits
        undone = np.diff(self.response.coefficients(ticks), prepend=0.0)  # C^-1
        decode = np.cumsum(lower_triangle(undone) / tops[:, None], axis=0)
        return replace(plain, measure=plain.measure * tops, decode=decode)
