"""What every claim of this room is: settings over a universe of users, and a noisy table under them.

    loss = (intrusions + 1) state_loss + releases output_loss

The table may be seen once, unannounced, at any moment, and `intrusions` times more, announced; `releases`
estimates are made of it. Neighbours are X-adjacent: all appearances of one user, however many, are there or
not (with `replace`: they are another user's). Public are all settings, the sample and the hash that `seed`
fixes, and how often and when `add`, `estimate` and `intrude` are called; not what `add` is called with.

Proof for every table here. An entry depends on one user alone. Between announced intrusions it has a law that
depends on the user, and any two such laws are within e^e of each other pointwise, where e is `entry_epsilon`;
an announced intrusion shows the entry through a channel with rows within e^e, after which the entry goes on
from what was shown alone. A release is a sum over entries under discrete Laplace noise, so that whatever
way an entry went, its probability is within e^output_loss. So the joint probability of all that is seen
moves by e^e for the unannounced intrusion, e^e for each announced one and e^output_loss for each release:
conditioned on what was seen before, and bounded by the most and the least over the ways that the entry may
have gone. (Of bits less noise is enough: `own_chance`.) `replace` moves two entries, several tables one
entry each: each entry has its share of `state_loss`.
"""

import sys
from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Any, ClassVar, Generic, TypeVar

from streamgauge.continual.saved import ANOTHER, BadSave, unpack
from streamgauge.noise import Chance, Ints
from streamgauge.panprivate.table_run import TableRun
from streamgauge.panprivate.table_settings import Hashed, LawName, check_chance, check_table, check_told
from streamgauge.privacy import Pure, XAdjacent

S = TypeVar("S")
E = TypeVar("E")
RECORD = frozenset({"releases", "intrusions", "saves"})
CALIBRATION = "own chance"  # see `own_chance`; earlier runs had other noise for the same settings
EARLIER = "one without its calibration is of an earlier version, whose noise was another"


@dataclass(frozen=True)
class TableClaim(ABC, Generic[S, E]):
    """The settings that all claims share; see the module's claim."""

    DELETIONS: ClassVar[str] = "users can be added only, since a table knows no more than whether they came"
    loss: Pure
    _: KW_ONLY
    universe: int
    sample: int | None = None
    hashed: Hashed = False
    seed: int = 0
    releases: int = 1
    intrusions: int = 0
    split: Fraction | None = None
    law: LawName = "symmetric"
    replace: bool = False

    def __init_subclass__(cls) -> None:
        """Lets `help` of an estimator show the claim, which opens its module."""
        super().__init_subclass__()
        claim = sys.modules[cls.__module__].__doc__
        cls.__doc__ = f"{cls.__doc__}\n\n{claim}" if cls.__doc__ and claim else cls.__doc__

    def __post_init__(self) -> None:
        check_table(self)
        if self.split is None:
            object.__setattr__(self, "split", self.best_split())
        self.check_law()
        check_told(self)

    @property
    def unit(self) -> XAdjacent:
        return XAdjacent(self.replace)

    @property
    def entries(self) -> int:
        """m: how many entries a table has, one for each member of the sample."""
        return self.universe if self.sample is None else self.sample

    @property
    def highest(self) -> float:
        """The largest that an estimate may rightly be, unless users are hashed."""
        return 1.0

    @property
    def tables(self) -> int:
        """How many entries, in as many tables, one user has."""
        return 1

    @property
    def share(self) -> Fraction:
        """The part of the loss that is the table's."""
        return Fraction(self.split or 0)

    @property
    def state_loss(self) -> Pure:
        """What each intrusion costs, the unannounced one and every announced one."""
        return Pure(self.loss.epsilon * self.share / (self.intrusions + 1))

    @property
    def output_loss(self) -> Pure:
        """What each estimate costs."""
        return Pure(self.loss.epsilon * (1 - self.share) / self.releases)

    @property
    def moved(self) -> int:
        """How many entries one unit moves."""
        return self.tables * (2 if self.replace else 1)

    @property
    def entry_epsilon(self) -> Fraction:
        """The most that the logarithm of an entry's probability may move."""
        return self.state_loss.epsilon / self.moved

    @abstractmethod
    def best_split(self) -> Fraction:
        """The share of the least predicted error."""

    @abstractmethod
    def check_law(self) -> None:
        """Refuses losses of which no law can be made."""

    @abstractmethod
    def initial(self, noise: Chance) -> S:
        """The table before anybody came."""

    @abstractmethod
    def take(self, state: S, users: Any, intrusions: int, noise: Chance) -> None:
        """Users as they appear, after so many announced intrusions."""

    def take_back(self, state: S, users: Any, intrusions: int, noise: Chance) -> None:
        """Appearances that are undone."""
        raise TypeError(self.removal_refusal())

    def removal_refusal(self) -> str:
        """Why no appearance can be taken back; nothing if it can."""
        return f"remove must not be asked of {type(self).__name__}: {self.DELETIONS}"

    @abstractmethod
    def rerandomise(self, state: S, before: int, noise: Chance) -> None:
        """Sends every entry through the channel, as was done `before` times already: twice an intrusion."""

    @abstractmethod
    def copied(self, state: S) -> S:
        """What an intruder takes away."""

    @abstractmethod
    def release(self, state: S, noise: Chance) -> Ints:
        """What leaves the run: sums over the table, under noise of their own."""

    @abstractmethod
    def estimated(self, released: Ints, intrusions: int) -> E:
        """What a release tells, after so many announced intrusions. No chance and no state take part."""

    @abstractmethod
    def stddev(self, value: float | None = None, intrusions: int = 0) -> float:
        """The standard error to expect where `value` is the truth, after so many announced intrusions."""

    def rough(self, intrusions: int) -> float:
        """The same without a value, or near it where that takes long: of this, choices are made."""
        return self.stddev(intrusions=intrusions)

    @abstractmethod
    def blank(self, width: int) -> S:
        """A table that only tells what tables are made of."""

    def identity(self) -> str:
        """With how the noise follows from the settings: a run never goes on under another noise than it
        began with."""
        return f"{self!r} by {CALIBRATION}"

    def start(self, noise: Chance | None = None) -> TableRun[S, E]:
        """A new run, over a table in which nobody has come."""
        check_chance(noise)
        return TableRun.new(self, noise)

    def load(self, saved: bytes, noise: Chance | None = None) -> TableRun[S, E]:
        """The run that `TableRun.save` wrote; refuses another claim's or an altered one.

        What was released or handed over after the save is not known to it: a save that is gone on from twice,
        or after its run went on, has as many releases and intrusions again, and all of them together keep no
        promise. Load each save once, the newest alone; the store of a pipeline sees to that, bytes cannot.
        """
        check_chance(noise)
        width, record, state = unpack(saved, self.identity(), self.blank, f"{self.identity()} ({EARLIER})")
        if width != self.entries or record.keys() != RECORD or not self._in_reserve(record):
            raise BadSave(ANOTHER)
        return TableRun(self, state, noise, **record)

    def _in_reserve(self, record: dict[str, int]) -> bool:
        most = {"releases": self.releases, "intrusions": self.intrusions, "saves": record["saves"]}
        return all(0 <= record[name] <= most[name] for name in RECORD)
