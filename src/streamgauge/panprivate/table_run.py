"""A run: one pan-private claim, its noisy table and its source of chance, bound together for users.

    add(users)     a step: reads users, draws, overwrites entries; nothing exact is left when it returns
    estimate()     releases an estimate, as often as the claim pays for
    intrude()      an announced intrusion: noise, hand the table over, noise; as often as the claim reserves

A run is a single thread of releases (see `streamgauge.continual.single`). It keeps no count of users or
events, and no word of it depends on them: an item that is no user of the claim is dropped by itself, in
silence. What `add` was handed stays the caller's, who has to forget it. Chance comes from the operating
system inside each call, under keys that die in it.
"""

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from streamgauge.continual.saved import pack
from streamgauge.continual.single import Single
from streamgauge.noise import Chance, EphemeralNoise
from streamgauge.panprivate.refusals import NoIntrusionLeft, NoReleaseLeft
from streamgauge.panprivate.users import check_batch

if TYPE_CHECKING:
    from streamgauge.panprivate.table_claim import TableClaim

S = TypeVar("S", bound=Any)
E = TypeVar("E")


class TableRun(Single[S], Generic[S, E]):
    """A claim at work; make one with `claim.start()` or `claim.load(saved)`."""

    def __init__(
        self,
        claim: "TableClaim[S, E]",
        state: S,
        noise: Chance | None,
        *,
        releases: int = 0,
        intrusions: int = 0,
        saves: int = 0,
    ) -> None:
        super().__init__(state)
        self.claim = claim
        self.releases = releases  # made so far
        self.intrusions = intrusions  # announced ones
        self.saves = saves  # how often the table was written out: each copy is one that may be looked at
        self._noise = noise if noise is not None else EphemeralNoise()

    @classmethod
    def new(cls, claim: "TableClaim[S, E]", noise: Chance | None) -> "TableRun[S, E]":
        source = noise if noise is not None else EphemeralNoise()
        return cls(claim, claim.initial(source), source)

    @property
    def record(self) -> dict[str, int]:
        """What was made of the table and who may have seen it. Public: it says nothing of users."""
        return {"releases": self.releases, "intrusions": self.intrusions, "saves": self.saves}

    def add(self, users: Any) -> None:
        """Takes users as they appear, one item each, as often as they do: a batch, and no generator."""
        check_batch(users)
        with self._taken() as state:
            self.claim.take(state, users, self.intrusions, self._noise)

    def remove(self, users: Any) -> None:
        """Takes back as many appearances, where the claim takes deletions."""
        refusal = self.claim.removal_refusal()
        if refusal:
            raise TypeError(refusal)
        check_batch(users)
        with self._taken() as state:
            self.claim.take_back(state, users, self.intrusions, self._noise)

    def estimate(self) -> E:
        """Releases one estimate, which costs `claim.output_loss`."""
        with self._taken(self._release_left) as state:
            self.releases += 1
            released = self.claim.release(state, self._noise)
        return self.claim.estimated(released, self.intrusions)

    def intrude(self) -> S:
        """An announced intrusion, which costs `claim.state_loss`: noise, hand over the table, noise."""
        with self._taken(self._intrusion_left) as state:
            self.claim.rerandomise(state, 2 * self.intrusions, self._noise)
            seen = self.claim.copied(state)
            self.claim.rerandomise(state, 2 * self.intrusions + 1, self._noise)
            self.intrusions += 1
        return seen

    def save(self) -> bytes:
        """The noisy table and the record; `claim.load` goes on from it. Whoever reads the bytes has
        intruded.

        An old save does not know what was released since: to go on from it spends the loss again. Keep the
        newest only, and load it once.
        """
        with self._alone() as state:
            self.saves += 1
            return pack(self.claim.identity(), self.claim.entries, self.record, state)

    def _release_left(self, state: S) -> None:
        if self.releases >= self.claim.releases:
            raise NoReleaseLeft(self.claim.releases)

    def _intrusion_left(self, state: S) -> None:
        if self.intrusions >= self.claim.intrusions:
            raise NoIntrusionLeft(self.claim.intrusions)

    def __repr__(self) -> str:
        return f"<run of {self.claim!r}>"
