"""Base class of local protocols: a device privatises one item into one report.

Privacy
    Local: the promise is the device's own, and holds against everyone who gets the report, the collector
    included. For any two items and any report, P(report | item) <= e^epsilon P(report | other item), in exact
    rational arithmetic over ideal bits. All settings are public. The fact that a device reports is not
    protected. A device that reports again loses again: see `streamgauge.localdp.device.device`.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, fields
from fractions import Fraction
from math import sqrt
from typing import Any

from streamgauge.continual.validation import check_whole
from streamgauge.localdp.collector import Collector
from streamgauge.localdp.oracle import Item, Spread, Table
from streamgauge.localdp.report_bytes import Reports
from streamgauge.noise import EphemeralNoise, RandomSource
from streamgauge.noise.coerce import Bools, Floats
from streamgauge.privacy import Pure


@dataclass(frozen=True)
class LocalMechanism(ABC):
    """The settings and methods that all claims share; see the module's claim."""

    loss: Pure
    _: KW_ONLY

    def __init_subclass__(cls) -> None:
        """Append the claim, which opens the module, to the docstring, for `help`."""
        super().__init_subclass__()
        claim = sys.modules[cls.__module__].__doc__
        cls.__doc__ = f"{cls.__doc__}\n\n{claim}" if cls.__doc__ and claim else cls.__doc__

    def __post_init__(self) -> None:
        if not isinstance(self.loss, Pure):
            raise ValueError(f"loss must be Pure for {type(self).__name__}, got {self.loss!r}")

    @property
    @abstractmethod
    def chances(self) -> dict[str, Fraction]:
        """Chances of the coins that a device tosses, k/2^32 each, by name."""

    @property
    @abstractmethod
    def report_bits(self) -> int:
        """Bits that distinguish one report from any other."""

    @property
    @abstractmethod
    def report_size(self) -> int:
        """Bytes of one report."""

    @property
    @abstractmethod
    def influence(self) -> float:
        """The most that one report, honest or not, moves any estimate."""

    @property
    @abstractmethod
    def spread(self) -> Spread:
        """The terms of the variance of an estimate."""

    @abstractmethod
    def privatise_many(self, items: Sequence[Item], noise: RandomSource | None = None) -> Reports:
        """Return one report for each of many devices."""

    @abstractmethod
    def build_table(self) -> Table:
        """Return the table of no reports."""

    @abstractmethod
    def well_formed(self, reports: Reports) -> Bools:
        """Return the rows that an honest device might have sent, each judged by itself."""

    @abstractmethod
    def tally(self, table: Table, reports: Reports, weight: int) -> None:
        """Add well-formed reports to the table (weight 1), or remove them (-1)."""

    @abstractmethod
    def counts(self, table: Table, reports: int, items: Sequence[Item]) -> Floats:
        """Return unbiased estimates of how many of the reports are of each item."""

    def squares(self, table: Table, reports: int, copies: int = 1) -> float:
        """Estimate the sum of the squares of all items' counts.

        Every report is present `copies` times. The sum is 0 if items share no cells.
        """
        return 0.0

    @property
    def hash_shape(self) -> tuple[int, int] | None:
        """Number of hashes and their width, if items share cells."""
        return None

    @property
    def value_spacing(self) -> float:
        """Distance between possible values of an estimate; 0 if they are anywhere."""
        return 0.0

    def privatise(self, item: Item, noise: RandomSource | None = None) -> bytes:
        """Return one report of `report_size` bytes."""
        return self.privatise_many([item], noise).tobytes()

    def variance(self, count: Any, reports: int, squares: Any = 0, copies: int = 1) -> Any:
        """Return the exact variance of the estimate of an item.

        `count` of `reports` reports are of the item. `squares` is the sum of the squares of the other items' counts, at
        least one for each other report. Every report is present `copies` times.
        """
        return self.spread.variance(count, reports, squares, copies)

    def stddev(self, count: float, reports: int, squares: float = 0) -> float:
        return sqrt(self.variance(count, reports, squares))

    def build_collector(self) -> Collector:
        return Collector(self)

    def load(self, saved: bytes) -> Collector:
        """Return the collector that `save` wrote."""
        return Collector.load(self, saved)

    def identity(self) -> str:
        """Return all settings, so that tables of two claims are never mixed."""
        settings = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in fields(self))
        return f"{type(self).__name__}({settings})"


def resolve_noise(noise: RandomSource | None) -> RandomSource:
    """Return the source of a device: by default the system's generator."""
    if noise is None:
        return EphemeralNoise()
    if not (hasattr(noise, "coins") and hasattr(noise, "uniform")):
        raise ValueError(f"noise must be a source with coins and uniform, got {noise!r}")
    return noise


def normalize_whole(mechanism: LocalMechanism, name: str, minimum: int, maximum: int) -> None:
    """Reject a setting that is no whole number in a range.

    Convert NumPy's to Python's.
    """
    value = getattr(mechanism, name)
    check_whole(name, value, minimum)
    if value > maximum:
        raise ValueError(f"{name} must be at most {maximum}, got {value}")
    object.__setattr__(mechanism, name, int(value))
