"""What every claim of this room is: settings under which a device privatises one item into one report.

Privacy
    Local: the promise is the device's own, and holds against whoever gets the report, the collector included.
    For any two items and any report, P(report | item) <= e^epsilon P(report | other item), in exact rational
    arithmetic over ideal bits. All settings are public. That a device reports at all is not protected.
    A device that reports again loses again: see `streamgauge.localdp.device`.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, fields
from fractions import Fraction
from math import sqrt
from typing import Any

from streamgauge.continual.settings import check_whole
from streamgauge.localdp.collector import Collector
from streamgauge.localdp.oracle import Item, Spread, Table
from streamgauge.localdp.reports import Reports
from streamgauge.noise import Chance, EphemeralNoise
from streamgauge.noise.numbers import Bools, Floats
from streamgauge.privacy import Pure


@dataclass(frozen=True)
class LocalClaim(ABC):
    """The settings and acts that all claims share; see the module's claim."""

    loss: Pure
    _: KW_ONLY

    def __init_subclass__(cls) -> None:
        """Lets `help` of a claim show what opens its module."""
        super().__init_subclass__()
        claim = sys.modules[cls.__module__].__doc__
        cls.__doc__ = f"{cls.__doc__}\n\n{claim}" if cls.__doc__ and claim else cls.__doc__

    def __post_init__(self) -> None:
        if not isinstance(self.loss, Pure):
            raise ValueError(f"loss must be Pure for {type(self).__name__}, got {self.loss!r}")

    @property
    @abstractmethod
    def chances(self) -> dict[str, Fraction]:
        """Of the coins that a device tosses, k/2^32 each, by name."""

    @property
    @abstractmethod
    def report_bits(self) -> int: ...

    @property
    @abstractmethod
    def report_size(self) -> int: ...

    @property
    @abstractmethod
    def influence(self) -> float: ...

    @property
    @abstractmethod
    def spread(self) -> Spread: ...

    @abstractmethod
    def privatise_many(self, items: Sequence[Item], noise: Chance | None = None) -> Reports: ...

    @abstractmethod
    def blank(self) -> Table: ...

    @abstractmethod
    def well_formed(self, reports: Reports) -> Bools: ...

    @abstractmethod
    def tally(self, table: Table, reports: Reports, weight: int) -> None: ...

    @abstractmethod
    def counts(self, table: Table, reports: int, items: Sequence[Item]) -> Floats: ...

    def squares(self, table: Table, reports: int, copies: int = 1) -> float:
        return 0.0

    @property
    def hashed(self) -> tuple[int, int] | None:
        return None

    @property
    def apart(self) -> float:
        return 0.0

    def privatise(self, item: Item, noise: Chance | None = None) -> bytes:
        """One report, `report_size` bytes."""
        return self.privatise_many([item], noise).tobytes()

    def variance(self, count: Any, reports: int, squares: Any = 0, copies: int = 1) -> Any:
        """Exact, of the estimate of an item that `count` of `reports` reports are of, where `squares` is the
        sum of the squares of the other items' counts (at least one for each other report), and every report
        is there `copies` times."""
        return self.spread.variance(count, reports, squares, copies)

    def stddev(self, count: float, reports: int, squares: float = 0) -> float:
        return sqrt(self.variance(count, reports, squares))

    def collector(self) -> Collector:
        return Collector(self)

    def load(self, saved: bytes) -> Collector:
        """The collector that `save` wrote."""
        return Collector.loaded(self, saved)

    def identity(self) -> str:
        settings = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in fields(self))
        return f"{type(self).__name__}({settings})"


def source(noise: Chance | None) -> Chance:
    """What a device draws from: the system's generator, unless told otherwise."""
    if noise is None:
        return EphemeralNoise()
    if not (hasattr(noise, "coins") and hasattr(noise, "uniform")):
        raise ValueError(f"noise must be a source with coins and uniform, got {noise!r}")
    return noise


def keep_whole(claim: LocalClaim, name: str, least: int, most: int) -> None:
    """Refuses a setting that is no whole number in a range, and keeps NumPy's as Python's."""
    value = getattr(claim, name)
    check_whole(name, value, least)
    if value > most:
        raise ValueError(f"{name} must be at most {most}, got {value}")
    object.__setattr__(claim, name, int(value))
