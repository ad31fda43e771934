"""State of a statistic's run: the counter's run and the statistic's own memory.

The saved counter is inside the saved statistic. The separate copy is overwritten once it was stored or read.
"""

import json
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from streamgauge.continual import InvalidSaveError, Run
from streamgauge.continual.state_io import WRONG_STATE_MESSAGE, BlankNoise, pack, unpack
from streamgauge.memory import WipedArrays, wipe
from streamgauge.noise import Noise
from streamgauge.statistics.events import Domain
from streamgauge.statistics.user_bounds import UserContributions

if TYPE_CHECKING:
    from streamgauge.statistics.statistic import Statistic

Octets = npt.NDArray[np.uint8]


@dataclass(slots=True)
class RunState:
    """Complete state of a run."""

    counter: Run[Any, Any]
    public: Run[Any, Any] | None  # public: exact counts of events, if these are public
    memory: Any
    users: UserContributions | None  # exact: number of ticks of each user


@dataclass(slots=True)
class SavedRunState:
    """Saved state as arrays."""

    labels: Octets
    counter: Octets = field(repr=False)
    public: Octets = field(repr=False)
    memory: Any = field(repr=False)
    users: Any = field(repr=False)


def pack_run(statistic: "Statistic[Any]", identity: str, width: int, domain: Domain | None, state: RunState) -> bytes:
    counter = state.counter.save()
    saved_state = SavedRunState(
        to_octets(b"" if domain is None else json.dumps(domain.labels).encode()),
        to_octets(counter),
        to_octets(b"" if state.public is None else state.public.save()),
        statistic.pack_memory(state.memory),
        None if state.users is None else state.users.to_saved(),
    )
    try:
        return pack(identity, width, state.counter.record, saved_state)
    finally:
        wipe(counter)


def unpack_run(statistic: "Statistic[Any]", saved: bytes, noise: Noise | None) -> tuple[int, Domain | None, RunState]:
    """Return the width, the groups and the state of the run."""
    none = np.zeros(0, np.uint8)

    def blank(width: int) -> SavedRunState:
        users = UserContributions.from_unit(statistic.unit).to_saved() if statistic.bounds_users else None
        return SavedRunState(none, none, none, statistic.pack_memory(statistic.initial_memory(width)), users)

    width, _, saved_state = unpack(saved, statistic.identity(), blank, repr(statistic))
    if list_types(saved_state.memory) != list_types(blank(width).memory):
        raise InvalidSaveError(WRONG_STATE_MESSAGE)
    domain = parse_labels(saved_state.labels.tobytes(), width)
    try:
        with WipedArrays() as secret:
            secret(saved_state.counter)
            return width, domain, _restore_state(statistic, width, saved_state, noise)
    except InvalidSaveError:
        raise
    except (ArithmeticError, LookupError, MemoryError, TypeError, ValueError):
        raise InvalidSaveError(WRONG_STATE_MESSAGE) from None


def _restore_state(statistic: "Statistic[Any]", width: int, saved: SavedRunState, noise: Noise | None) -> RunState:
    counter = statistic.counter.load(saved.counter.data, noise)
    public = statistic.counter.load(saved.public.tobytes(), BlankNoise()) if len(saved.public) else None
    users = None if saved.users is None else UserContributions.from_saved(statistic.unit, saved.users)
    memory = statistic.unpack_memory(saved.memory)
    if counter.width != statistic.vector_size(width, memory) and not statistic.CAN_GROW:
        raise InvalidSaveError(WRONG_STATE_MESSAGE)
    return RunState(counter, public, memory, users)


def list_types(memory: Any) -> list[Any]:
    """Return the types of the parts of a memory."""
    if isinstance(memory, np.ndarray):
        return [memory.dtype]
    return [list_types(getattr(memory, f.name)) for f in fields(memory)] if is_dataclass(memory) else [type(memory)]


def parse_labels(labels: bytes, width: int) -> Domain | None:
    """Return the declared groups; reject a number that differs from the run's width."""
    if not labels:
        return None
    try:
        domain = Domain.from_labels("groups", json.loads(labels))
    except (TypeError, ValueError):
        raise InvalidSaveError(WRONG_STATE_MESSAGE) from None
    if len(domain) != width:
        raise InvalidSaveError(WRONG_STATE_MESSAGE)
    return domain


def to_octets(data: bytes) -> Octets:
    return np.frombuffer(data, np.uint8)
