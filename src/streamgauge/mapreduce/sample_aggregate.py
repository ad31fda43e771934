"""Whole programs over tumbling windows: sample and aggregate.

    window of rows -> l blocks -> `run(rows)` in a sandbox each -> clamp, grid, default -> private median or mean

**Blocks.** All rows of a user are in one block, by a keyed hash. If the unit is an event, each row draws its block.
**Slots.** Each block has a slot of fixed length, and is read at its end (`sandbox.slots`). A block that fails, that
runs for too long, or that returns another number of numbers has the middle of each range as its output.

Privacy
    Neighbours: streams that differ in one unit; number of blocks and slots are public. Promise: `loss` for all windows
    of a unit together. Proof: the rows of a unit in one window lie in one block, which depends on no other row. A
    block's output is a function of its rows and of chance. So one of l outputs changes, and `block_combination` loses
    the loss of a window. Windows have independent noise and share no rows: a unit in T windows loses T times that,
    so each has the T-th part. Replacing a user by another is two steps: it moves two blocks, and loses twice as much.

Error
    `plan` has the blocks and units that a window needs, and the error for a spread of outputs.

Reference
    Nissim, Raskhodnikova, Smith 2007; Mohan, Thakurta, Shi, Song, Culler: GUPT, 2012. Programs here have no state
    between blocks or windows. No row is in several blocks: GUPT's resampling leaves the noise as it is.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from fractions import Fraction
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from streamgauge.clock import MICROSECONDS_PER_SECOND, Clock, SystemClock
from streamgauge.mapreduce.block_combination import (
    bound_rank,
    build_grid,
    combine_mean,
    combine_median,
    find_places,
    min_median_blocks,
    predict_mean_error,
    predict_median_error,
)
from streamgauge.mapreduce.columns import RecordColumn, build_column
from streamgauge.mapreduce.mapper import select_records
from streamgauge.mapreduce.program import ValueKind
from streamgauge.mapreduce.program_plan import ProgramPlan, count_blocks, count_units
from streamgauge.mapreduce.sandbox import BlockLauncher, SandboxLauncher, SandboxLimits, SlotSchedule
from streamgauge.mapreduce.sandbox.block_process import EncodedBlock, encode_block
from streamgauge.noise import Grid, Ints, RandomSource, SecureNoise
from streamgauge.noise.entropy import read_system_key
from streamgauge.privacy import Event, Pure, Unit, User, WEvent, Zcdp
from streamgauge.privacy.rationals import Number
from streamgauge.statistics.events import to_column
from streamgauge.statistics.user_bounds import UserContributions, encode_users

MAX_OUTPUTS = 1024
TRIAL_SECONDS = 60.0
Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True)
class SampleAggregate:
    """A program in Python, its blocks and ranges, and the combination of its outputs.

    >>> import streamgauge as sg
    >>> mean = "def run(rows):\\n    return rows['x'].mean()"
    >>> SampleAggregate(mean, {"x": "number"}, [(0, 100, 1)], sg.Pure(1), units=10_000).block_count
    158
    """

    program: str | Path  # source, or the path of a file
    columns: Mapping[str, ValueKind]
    outputs: Sequence[tuple[Number, Number, Number]]  # lower, upper and grid of each
    loss: Pure | Zcdp
    _: KW_ONLY
    units: int | None = None  # declared number of units of a window
    blocks: int | None = None  # None: units to the power 0.55
    combine: Literal["median", "mean"] = "median"
    unit: Unit = Event()
    slot_seconds: float = 2.0
    parallel: int = 1
    limits: SandboxLimits = field(default_factory=SandboxLimits)

    def __post_init__(self) -> None:
        if not 1 <= len(self.outputs) <= MAX_OUTPUTS:
            raise ValueError(f"outputs must be 1 to {MAX_OUTPUTS:,} ranges, got {len(self.outputs)}")
        if self.combine not in ("median", "mean"):
            raise ValueError(f"combine must be median or mean, got {self.combine!r}")
        if not isinstance(self.loss, Pure if self.combine == "median" else Pure | Zcdp) or self.loss.amount <= 0:
            allowed = "Pure" if self.combine == "median" else "Pure or Zcdp"
            raise ValueError(f"loss must be {allowed} and above 0 for a {self.combine}, got {self.loss!r}")
        if not isinstance(self.unit, Event | WEvent | User):
            raise ValueError(f"unit must be an Event, a WEvent or a User with bounds, got {self.unit!r}")
        if self.units is None and self.blocks is None:
            raise ValueError("units must be declared unless blocks are, got None")
        if self.block_count < self.min_blocks:
            rule = f"blocks must be at least {self.min_blocks} for this grid and loss"
            fix = f"declare {count_units(self.min_blocks):,} units a window, or fewer outputs, or a coarser grid"
            raise ValueError(f"{rule}, got {self.block_count}: {fix}")
        self.source, self.schedule  # noqa: B018 - read and checked now

    @cached_property
    def source(self) -> str:
        """Source of the program."""
        return self.program.read_text("utf-8") if isinstance(self.program, Path) else self.program

    @cached_property
    def schedule(self) -> SlotSchedule:
        return SlotSchedule(self.slot_seconds, self.parallel)

    @cached_property
    def grids(self) -> list[Grid]:
        return [build_grid(*each) for each in self.outputs]

    @property
    def block_count(self) -> int:
        """Number of blocks of a window."""
        return self.blocks if self.blocks is not None else count_blocks(self.units or 1)

    @property
    def output_loss(self) -> Pure | Zcdp:
        """Loss of one output of one window."""
        return self.loss.part(Fraction(1, self.unit.ticks * len(self.outputs)))

    @property
    def min_blocks(self) -> int:
        """The fewest blocks that are accepted."""
        loss = self.output_loss
        if self.combine == "mean" or not isinstance(loss, Pure):
            return 1
        return max(min_median_blocks(grid, loss) for grid in self.grids)

    def plan(self, spreads: Sequence[float] | None = None) -> ProgramPlan:
        """Return the sizes and errors of a window, before anything is charged.

        Args:
            spreads: Standard deviation of each output over blocks, as declared or from public data.
        """
        errors = None if spreads is None else self.predict_errors(spreads)
        return ProgramPlan(
            self.block_count,
            self.min_blocks,
            self.units,
            count_units(self.min_blocks),
            self.schedule.count_seconds(self.block_count),
            errors,
            self.find_rank_errors(0.05),
        )

    def predict_errors(self, spreads: Sequence[float]) -> list[float]:
        """Return the RMSE of each output, if it spreads normally over blocks."""
        loss, pairs = self.output_loss, zip(self.grids, spreads, strict=True)
        if self.combine == "mean" or not isinstance(loss, Pure):
            return [predict_mean_error(grid, loss, self.block_count, spread) for grid, spread in pairs]
        return [predict_median_error(grid, loss, self.block_count, spread) for grid, spread in pairs]

    def find_rank_errors(self, beta: float) -> list[float] | None:
        """Return by how many blocks each median is off, but with probability `beta`; None for means."""
        loss = self.output_loss
        if self.combine == "mean" or not isinstance(loss, Pure):
            return None
        return [bound_rank(grid, loss, beta / len(self.grids)) for grid in self.grids]

    def try_program(self, columns: Mapping[str, Any] | None = None, seconds: float = TRIAL_SECONDS) -> list[float]:
        """Run the program once in the sandbox on rows that a person typed, and return its numbers.

        Its error messages are shown. Never use private rows. Without rows, the program is loaded only.
        """
        typed = None if columns is None else self.build_columns(columns)
        block = encode_block(self.source, len(self.outputs), self.columns, typed)
        found = SandboxLauncher.from_machine(self.limits).try_block(block, seconds)
        return [float(number) for number in np.frombuffer(found, np.float64)]

    def start(
        self,
        *,
        noise: RandomSource | None = None,
        launcher: BlockLauncher | None = None,
        clock: Clock | None = None,
        key: bytes | None = None,
    ) -> "ProgramRun":
        """Return a new run.

        Args:
            noise: Source of noise and of blocks of events.
            launcher: Starts the blocks. Without one, the sandbox and the program are checked first.
            clock: Clock of the slots.
            key: Key of the blocks of users; 32 secret bytes, drawn if not given.
        """
        clock = clock or SystemClock()
        if launcher is None:
            cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
            if self.parallel > cores:
                raise ValueError(f"parallel must be at most the {cores} cores of this machine, got {self.parallel}")
            self._check_start(clock)
            launcher = SandboxLauncher.from_machine(self.limits)
        return ProgramRun(self, noise or SecureNoise(), launcher, clock, key or read_system_key())

    def _check_start(self, clock: Clock) -> None:
        """Load the program in the sandbox without rows. Reject a slot in which it cannot even be loaded."""
        began = clock.steady()
        self.try_program()
        seconds = (clock.steady() - began) / MICROSECONDS_PER_SECOND
        if seconds > self.schedule.run_seconds:
            rule = f"9/10 of slot_seconds must exceed the start of the program, {seconds:.2f} s on this machine"
            raise ValueError(f"{rule}, got slot_seconds {self.slot_seconds:g}")

    def build_columns(self, columns: Mapping[str, Any]) -> dict[str, RecordColumn]:
        """Return the declared columns, typed item by item."""
        typed = {name: build_column(kind, columns[name]) for name, kind in self.columns.items()}
        if len({len(column) for column in typed.values()}) > 1:
            raise ValueError("columns must have one item for every row, got different lengths")
        return typed


@dataclass(frozen=True)
class ProgramEstimate:
    """Private numbers of one window."""

    window: int  # from 1
    values: list[float]


class ProgramRun:
    """Run of a program: the rows of each window in, private numbers out."""

    def __init__(
        self, aggregate: SampleAggregate, noise: RandomSource, launcher: BlockLauncher, clock: Clock, key: bytes
    ) -> None:
        self.aggregate, self.window = aggregate, 0
        self._noise, self._launcher, self._clock = noise, launcher, clock
        self._key = key  # secret: of the blocks of users
        is_user = isinstance(aggregate.unit, User)
        self._users = UserContributions.from_unit(aggregate.unit) if is_user else None

    def step(self, columns: Mapping[str, Any], *, users: Any = None) -> ProgramEstimate:
        """Run the program on the rows of one window, and return the release at the end of its slots.

        Args:
            columns: One column for each declared one.
            users: The user of each row, if users are the unit.
        """
        start = self._clock.steady()
        blocks = self.build_blocks(columns, users)
        results = self.aggregate.schedule.run(blocks, self._launcher, self._clock, start)
        outputs = np.array([decode_numbers(result, len(self.aggregate.outputs)) for result in results])
        return ProgramEstimate(self.window, self.combine_outputs(outputs))

    def build_blocks(self, columns: Mapping[str, Any], users: Any = None) -> list[EncodedBlock]:
        """Return the blocks of the next window. They are secret."""
        typed = self.aggregate.build_columns(columns)
        self.window += 1
        rows, blocks = self._assign_blocks(len(next(iter(typed.values()))), users)
        settings = self.aggregate.source, len(self.aggregate.outputs), self.aggregate.columns
        members = [rows[blocks == block] for block in range(self.aggregate.block_count)]
        return [
            encode_block(*settings, {name: select_records(column, each) for name, column in typed.items()})
            for each in members
        ]

    def combine_outputs(self, outputs: Doubles) -> list[float]:
        """Return the private numbers of a window from the outputs of its blocks, a row each."""
        loss, values = self.aggregate.output_loss, []
        for place, grid in enumerate(self.aggregate.grids):
            places = find_places(grid, outputs[:, place])
            if self.aggregate.combine == "median" and isinstance(loss, Pure):
                values.append(combine_median(places, grid, loss, self._noise))
            else:
                values.append(combine_mean(places, grid, loss, self._noise))
        return values

    def _assign_blocks(self, count: int, users: Any) -> tuple[Ints, Ints]:
        """Return the rows that count, and the block of each."""
        blocks = self.aggregate.block_count
        if self._users is None:
            return np.arange(count), self._noise.uniform(blocks, count)
        if users is None:
            raise ValueError("users must be given, since they are the unit, got None")
        names = to_column("users", users)
        if len(names) != count:
            raise ValueError("users must have one item for every row, got another length")
        rows = self._users.admit_events(names, self.window)
        codes, known = encode_users(names[rows])
        hashes = [blake2b(user, digest_size=16, key=self._key).digest() for user in known]
        by_user = np.array([int.from_bytes(each, "little") % blocks for each in hashes], np.int64)
        return rows, by_user[codes] if len(rows) else np.zeros(0, np.int64)


def decode_numbers(result: bytes, count: int) -> list[float]:
    """Return the numbers of a block, or NaN for all of them if it wrote anything else.

    >>> decode_numbers(bytes(8), 1), decode_numbers(bytes(7), 1), decode_numbers(bytes(9), 1)
    ([0.0], [nan], [nan])
    """
    if len(result) != 8 * count:
        return [float("nan")] * count
    return [float(number) for number in np.frombuffer(result, np.float64)]
