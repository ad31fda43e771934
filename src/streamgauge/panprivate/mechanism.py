"""Base classes of claims about a universe of users, over a noisy table.

    loss = (intrusions + 1) state_loss + releases output_loss

An intruder may read the table once, unannounced, at any moment, and `intrusions` times more, announced. `releases`
estimates are made of it.

Privacy
    Neighbours: X-adjacent streams. All appearances of one user, however many, are present or not (with
    `replace`: they are another user's). Public: all settings, the sample and the hash that `seed` fixes, and
    the number and times of calls of `add`, `estimate` and `intrude`. The arguments of `add` are not public.
    Proof for every table here. An entry depends on one user alone. Between announced intrusions it has a law
    that depends on the user. Any two such laws differ by a factor of at most e^e pointwise, where e is
    `entry_epsilon`. An announced intrusion shows the entry through a channel whose rows differ by at most e^e.
    Then the entry continues from the shown value alone. A release is a sum over entries under discrete Laplace
    noise, so that its probability changes by at most e^output_loss, for any history of an entry. So the
    joint probability of all observations moves by e^e for the unannounced intrusion, e^e for each announced
    one and e^output_loss for each release. Each factor is conditioned on earlier observations, and bounded by
    the maximum and the minimum over the histories of the entry. (Bits need less noise: see `density`.)
    `replace` moves two entries, and several tables one entry each: each entry has its share of `state_loss`.
"""

import sys
from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

from streamgauge.continual.state_io import WRONG_STATE_MESSAGE, InvalidSaveError, unpack
from streamgauge.noise import EphemeralNoise, Ints, RandomSource
from streamgauge.panprivate.error_bounds import find_best_split
from streamgauge.panprivate.run import TableRun
from streamgauge.panprivate.users import HashedUniverse, Universe, build_universe
from streamgauge.panprivate.validation import (
    HashMode,
    LawName,
    check_finite_error,
    check_noise_source,
    check_table_settings,
)
from streamgauge.privacy import Pure, XAdjacent

S = TypeVar("S", bound=Any)
E = TypeVar("E")
RECORD_KEYS = frozenset({"releases", "intrusions", "saves"})
CALIBRATION_NAME = "own chance"  # see `density`; earlier runs had other noise for the same settings


@dataclass(frozen=True)
class UserClaim(ABC):
    """Settings of all claims about a universe of users, and the reading of saved runs."""

    OTHER_NOISE_MESSAGE: ClassVar[str]  # the reason to reject a save of the same settings
    loss: Pure
    _: KW_ONLY
    universe: int
    sample: int | None = None
    hashed: HashMode = False
    seed: int = 0
    intrusions: int = 0
    law: LawName = "symmetric"
    replace: bool = False

    def __init_subclass__(cls) -> None:
        """Append the claim, which opens the module, to the docstring, for `help`."""
        super().__init_subclass__()
        claim = sys.modules[cls.__module__].__doc__
        cls.__doc__ = f"{cls.__doc__}\n\n{claim}" if cls.__doc__ and claim else cls.__doc__

    @property
    def unit(self) -> XAdjacent:
        return XAdjacent(self.replace)

    @property
    def entries(self) -> int:
        """m: the number of entries of a table, one for each member of the sample."""
        return self.universe if self.sample is None else self.sample

    @abstractmethod
    def identity(self) -> str:
        """Return settings and law of the noise: a run never resumes under other noise."""

    @abstractmethod
    def blank_table(self, width: int) -> Any:
        """Return a table that shows the types of tables only."""

    def unpack_run(self, saved: bytes, noise: RandomSource | None) -> tuple[Any, dict[str, int]]:
        """Return state and record of a saved run; reject one of another claim."""
        check_noise_source(noise)
        identity = self.identity()
        width, record, state = unpack(saved, identity, self.blank_table, f"{identity} ({self.OTHER_NOISE_MESSAGE})")
        if width != self.entries or record.keys() != RECORD_KEYS or min(record.values()) < 0:
            raise InvalidSaveError(WRONG_STATE_MESSAGE)
        if record["intrusions"] > self.intrusions:
            raise InvalidSaveError(WRONG_STATE_MESSAGE)
        return state, record


@dataclass(frozen=True)
class TableMechanism(UserClaim, Generic[S, E]):
    """A claim over one noisy table; see the module's claim."""

    REMOVAL_REFUSAL: ClassVar[str] = "users can be added only, since a table only knows that they came"
    OTHER_NOISE_MESSAGE: ClassVar[str] = "one without its calibration is of an earlier version, whose noise was another"
    _: KW_ONLY
    releases: int = 1
    split: Fraction | None = None

    def __post_init__(self) -> None:
        check_table_settings(self)
        if self.split is None:
            object.__setattr__(self, "split", self.find_best_split())
        self.check_law()
        check_finite_error(self)

    @cached_property
    def users(self) -> Universe | HashedUniverse:
        return build_universe(self)

    @property
    def highest(self) -> float:
        """The largest true value of an estimate, unless users are hashed."""
        return 1.0

    @property
    def entries_per_user(self) -> int:
        """The number of entries, in as many tables, of one user."""
        return 1

    @property
    def table_share(self) -> Fraction:
        """The part of the loss for the table."""
        return Fraction(self.split or 0)

    @property
    def state_loss(self) -> Pure:
        """The cost of each intrusion, the unannounced one and every announced one."""
        return Pure(self.loss.epsilon * self.table_share / (self.intrusions + 1))

    @property
    def output_loss(self) -> Pure:
        """The cost of each estimate."""
        return Pure(self.loss.epsilon * (1 - self.table_share) / self.releases)

    @property
    def entries_per_unit(self) -> int:
        """The number of entries that one unit moves."""
        return self.entries_per_user * (2 if self.replace else 1)

    @property
    def entry_epsilon(self) -> Fraction:
        """The most that the logarithm of an entry's probability may move."""
        return self.state_loss.epsilon / self.entries_per_unit

    def find_best_split(self) -> Fraction:
        """Return the share of the table with the least predicted error."""
        return find_best_split(lambda share: replace(self, split=share).rough_stddev(self.intrusions))

    @abstractmethod
    def check_law(self) -> None:
        """Reject losses that allow no law."""

    @abstractmethod
    def initial(self, noise: RandomSource) -> S:
        """Return the table before any user came."""

    @abstractmethod
    def add_users(self, state: S, users: Any, intrusions: int, noise: RandomSource) -> None:
        """Add appearances of users, after so many announced intrusions."""

    def remove_users(self, state: S, users: Any, intrusions: int, noise: RandomSource) -> None:
        """Remove appearances of users."""
        raise TypeError(self.removal_refusal())

    def removal_refusal(self) -> str:
        """Return the reason why appearances cannot be removed; empty if they can."""
        return f"remove must not be called on {type(self).__name__}: {self.REMOVAL_REFUSAL}"

    @abstractmethod
    def rerandomize(self, state: S, before: int, noise: RandomSource) -> None:
        """Send every entry through the channel, the `before`-th time: twice an intrusion."""

    def copy_state(self, state: S) -> S:
        """Return the copy that an intruder gets."""
        copied: S = state.copy()
        return copied

    @abstractmethod
    def release(self, state: S, noise: RandomSource) -> Ints:
        """Return the released sums over the table, under independent noise."""

    @abstractmethod
    def build_estimate(self, released: Ints, intrusions: int) -> E:
        """Return the estimate of a release, after so many announced intrusions.

        It uses no chance and no state.
        """

    @abstractmethod
    def stddev(self, value: float | None = None, intrusions: int = 0) -> float:
        """Return the standard error to expect if `value` is the truth.

        It is for a run after so many announced intrusions.
        """

    def rough_stddev(self, intrusions: int) -> float:
        """Return the standard error without a value, or a fast approximation.

        Choices use it.
        """
        return self.stddev(intrusions=intrusions)

    def identity(self) -> str:
        return f"{self!r} by {CALIBRATION_NAME}"

    def start(self, noise: RandomSource | None = None) -> TableRun[S, E]:
        """Start a run over a table of users of whom none has come."""
        check_noise_source(noise)
        source = noise if noise is not None else EphemeralNoise()
        return TableRun(self, self.initial(source), source)

    def load(self, saved: bytes, noise: RandomSource | None = None) -> TableRun[S, E]:
        """Resume the run that `TableRun.save` wrote; reject an altered or foreign one.

        A save does not know of releases and intrusions after it. A save that is resumed twice, or after its run
        continued, has as many releases and intrusions again. All of them together break the promise. Load each
        save once, the newest alone. The store of a pipeline enforces that; bytes cannot.
        """
        state, record = self.unpack_run(saved, noise)
        if record["releases"] > self.releases:
            raise InvalidSaveError(WRONG_STATE_MESSAGE)
        return TableRun(self, state, noise, **record)
