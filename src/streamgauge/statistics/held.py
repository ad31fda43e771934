"""What a run of a statistic holds, and how it is saved: the counter's run and the statistic's own memory.

The save of the counter is within that of the statistic. By itself it is overwritten once it was put or read.
"""

import json
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from streamgauge.continual import BadSave, Run
from streamgauge.continual.saved import ANOTHER, NoNoise, pack, unpack
from streamgauge.noise import Noise
from streamgauge.noise.entropy import Wiped, wipe
from streamgauge.statistics.columns import Domain
from streamgauge.statistics.contributions import Contributions

if TYPE_CHECKING:
    from streamgauge.statistics.statistic import Statistic

Octets = npt.NDArray[np.uint8]


@dataclass(slots=True)
class Held:
    """All that a run has."""

    counter: Run[Any, Any]
    public: Run[Any, Any] | None  # public: exact counts of events, where these are public
    memory: Any
    users: Contributions | None  # exact: who has appeared in how many ticks


@dataclass(slots=True)
class Kept:
    """The same as arrays, to be saved."""

    labels: Octets
    counter: Octets = field(repr=False)
    public: Octets = field(repr=False)
    memory: Any = field(repr=False)
    users: Any = field(repr=False)


def packed(statistic: "Statistic[Any]", width: int, domain: Domain | None, held: Held) -> bytes:
    counter = held.counter.save()
    kept = Kept(
        octets(b"" if domain is None else json.dumps(domain.labels).encode()),
        octets(counter),
        octets(b"" if held.public is None else held.public.save()),
        statistic.packed(held.memory),
        None if held.users is None else held.users.saved(),
    )
    try:
        return pack(statistic.identity(), width, held.counter.record, kept)
    finally:
        wipe(counter)


def unpacked(
    statistic: "Statistic[Any]", saved: bytes, noise: Noise | None
) -> tuple[int, Domain | None, Held]:
    """The width, the groups and all that the run had."""
    none = np.zeros(0, np.uint8)

    def blank(width: int) -> Kept:
        users = Contributions.of(statistic.unit).saved() if statistic.bounds_users else None
        return Kept(none, none, none, statistic.packed(statistic.memory(width)), users)

    width, _, kept = unpack(saved, statistic.identity(), blank, repr(statistic))
    if types(kept.memory) != types(blank(width).memory):
        raise BadSave(ANOTHER)
    domain = labelled(kept.labels.tobytes(), width)
    try:
        with Wiped() as secret:
            secret(kept.counter)
            return width, domain, _held(statistic, width, kept, noise)
    except BadSave:
        raise
    except (ArithmeticError, LookupError, MemoryError, TypeError, ValueError):
        raise BadSave(ANOTHER) from None


def _held(statistic: "Statistic[Any]", width: int, kept: Kept, noise: Noise | None) -> Held:
    counter = statistic.counter.load(kept.counter.data, noise)
    public = statistic.counter.load(kept.public.tobytes(), NoNoise()) if len(kept.public) else None
    users = None if kept.users is None else Contributions.restored(statistic.unit, kept.users)
    memory = statistic.unpacked(kept.memory)
    if counter.width != statistic.size(width, memory) and not statistic.GROWS:
        raise BadSave(ANOTHER)
    return Held(counter, public, memory, users)


def types(memory: Any) -> list[Any]:
    """What the parts of a memory are made of."""
    if isinstance(memory, np.ndarray):
        return [memory.dtype]
    return (
        [types(getattr(memory, f.name)) for f in fields(memory)] if is_dataclass(memory) else [type(memory)]
    )


def labelled(labels: bytes, width: int) -> Domain | None:
    """The declared groups, if there are as many as the run is wide."""
    if not labels:
        return None
    try:
        domain = Domain.of("groups", json.loads(labels))
    except (TypeError, ValueError):
        raise BadSave(ANOTHER) from None
    if len(domain) != width:
        raise BadSave(ANOTHER)
    return domain


def octets(data: bytes) -> Octets:
    return np.frombuffer(data, np.uint8)
