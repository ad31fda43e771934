"""Run: a pan-private claim, its noisy table and its source of chance.

    add(users)     a step: reads users, draws, overwrites entries; nothing exact is left when it returns
    estimate()     releases an estimate, as often as the claim pays for
    intrude()      an announced intrusion: noise, hand-over of the table, noise; as often as the claim reserves

A run is a single thread of releases (see `streamgauge.continual.run`). It stores no count of users or events, and
no message of it depends on them. An item that is no user of the claim is dropped by itself, silently. The argument
of `add` belongs to the caller, and the caller erases it. Chance comes from the operating system inside each call, under
keys that are erased in it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from streamgauge.continual.run import ExclusiveState, LimitExceededError
from streamgauge.continual.state_io import pack
from streamgauge.memory import WipedArrays
from streamgauge.noise import EphemeralNoise, Ints, RandomSource
from streamgauge.panprivate.users import check_batch
from streamgauge.panprivate.validation import build_intrusions_error

if TYPE_CHECKING:
    from streamgauge.panprivate.mechanism import TableMechanism

S = TypeVar("S", bound=Any)
E = TypeVar("E")


class TableRun(ExclusiveState[S], Generic[S, E]):
    """A claim at work; make one with `claim.start()` or `claim.load(saved)`."""

    def __init__(
        self,
        claim: "TableMechanism[S, E]",
        state: S,
        noise: RandomSource | None,
        *,
        releases: int = 0,
        intrusions: int = 0,
        saves: int = 0,
    ) -> None:
        super().__init__(state)
        self.claim = claim
        self.releases = releases  # made so far
        self.intrusions = intrusions  # announced ones
        self.saves = saves  # each copy may be read by an intruder
        self._noise = noise if noise is not None else EphemeralNoise()

    @property
    def record(self) -> dict[str, int]:
        """The numbers of releases, intrusions and saves. Public: independent of users."""
        return {"releases": self.releases, "intrusions": self.intrusions, "saves": self.saves}

    def add(self, users: Any) -> None:
        """Add users as they appear, one item for each appearance: a batch, no generator."""
        check_batch(users)
        with self._exclusive() as state:
            self.claim.add_users(state, users, self.intrusions, self._noise)

    def remove(self, users: Any) -> None:
        """Remove as many appearances, if the claim has deletions."""
        refusal = self.claim.removal_refusal()
        if refusal:
            raise TypeError(refusal)
        check_batch(users)
        with self._exclusive() as state:
            self.claim.remove_users(state, users, self.intrusions, self._noise)

    def estimate(self) -> E:
        """Release one estimate, which costs `claim.output_loss`."""
        with self._exclusive(self._check_release_left) as state:
            self.releases += 1
            released = self.claim.release(state, self._noise)
        return self.claim.build_estimate(released, self.intrusions)

    def intrude(self) -> S:
        """Answer an announced intrusion, which costs `claim.state_loss`.

        It draws noise, copies the table for the intruder, and draws noise again.
        """
        with self._exclusive(self._check_intrusion_left) as state:
            self.claim.rerandomize(state, 2 * self.intrusions, self._noise)
            handed_over = self.claim.copy_state(state)
            self.claim.rerandomize(state, 2 * self.intrusions + 1, self._noise)
            self.intrusions += 1
        return handed_over

    def save(self) -> bytes:
        """Return the noisy table and the record, for `claim.load`.

        Reading the bytes is an intrusion. An old save does not know of later releases: resuming it spends the loss
        again. Keep the newest only, and load it once.
        """
        with self._locked() as state:
            self.saves += 1
            return pack(self.claim.identity(), self.claim.entries, self.record, state)

    def _check_release_left(self, state: S) -> None:
        if self.releases >= self.claim.releases:
            raise LimitExceededError(
                f"releases must be at most the {self.claim.releases} that the claim pays for, got one more",
                "releases_exhausted",
            )

    def _check_intrusion_left(self, state: S) -> None:
        if self.intrusions >= self.claim.intrusions:
            raise build_intrusions_error(self.claim.intrusions)

    def __repr__(self) -> str:
        return f"<run of {self.claim!r}>"


CHUNK_ENTRIES = 1 << 18  # entries worked on at once


@dataclass(slots=True)
class NoisyTable:
    """The memory of a run. Nothing in it is exact."""

    entries: npt.NDArray[Any] = field(repr=False)  # noisy: one for each member of the sample

    def copy(self) -> "NoisyTable":
        return NoisyTable(self.entries.copy())

    def iterate_chunks(self) -> Iterator[npt.NDArray[Any]]:
        """Yield views of the entries, in order."""
        for start in range(0, len(self.entries), CHUNK_ENTRIES):
            yield self.entries[start : start + CHUNK_ENTRIES]

    def count_values(self, values: int) -> Ints:
        """Return the numbers of entries that are 0, 1, .., values - 1; wipe all copies."""
        counts = np.zeros(values, np.int64)
        for part in self.iterate_chunks():
            with WipedArrays() as secret:
                counts += secret(np.bincount(secret(part.astype(np.int64)), minlength=values))
        return counts
