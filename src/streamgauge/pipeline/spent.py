"""What a history has charged, told compactly: the witness keeps it, where an old copy of a store is not.

Promise
    Every charge that anything was ever published under is in the witness, whichever copies of a store were
    put back since, as long as each of them was paid for. Proof: the witness is written after a commit and
    before anything of it is published, with all charges of that history; and a store that takes the place of
    another enters those which it does not know as `lost` before it goes on (`Opening`).

A charge is known by the chain of its entry, which no other history has, and by its place among all charges.
Columns of reports are none of them: what a device's report has lost is lost once, whichever store counts it.
An announced intrusion is known by its chain: each charge has those that its release was there for.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import count
from typing import Any

from streamgauge.pipeline.reader import Act


@dataclass(frozen=True)
class Spent:
    """One charge. While a release runs under it, `last` may lie ahead of what was drawn so far."""

    id: str
    release: str
    loss: Mapping[str, str]
    first: int
    last: int | None
    delta: str | None = None
    running: bool = False
    intrusions: tuple[str, ...] = ()  # what was handed over of it

    @classmethod
    def of_json(cls, told: Mapping[str, Any]) -> "Spent":
        first, last = int(told["first"]), told["last"]
        loss = {str(name): str(amount) for name, amount in told["loss"].items()}
        delta, running = told.get("delta"), bool(told.get("running", False))
        last, seen = None if last is None else int(last), tuple(map(str, told.get("intrusions", ())))
        return cls(str(told["id"]), str(told["release"]), loss, first, last, delta, running, seen)

    def as_json(self) -> dict[str, Any]:
        """Without what is as usual."""
        told = asdict(self) | {"intrusions": list(self.intrusions)}
        return {name: value for name, value in told.items() if name == "last" or value}

    def drawn_by(self, tick: int) -> "Spent":
        """As it is if its release ran until a tick and no further; an open one counts where it was seen."""
        if not self.running:
            return self
        return replace(self, last=tick if self.last is None else min(self.last, tick), running=False)

    @property
    def empty(self) -> bool:
        """Nothing was ever drawn under it."""
        return self.last is not None and self.last < self.first


def spent_by(acts: Iterable[tuple[str, Act]]) -> tuple[Spent, ...]:
    """All charges among acts, each of which comes with the chain of its entry; an end cuts its own short."""
    found: dict[str, Spent] = {}
    running: dict[str, str] = {}  # which of them a release runs under
    place = count()
    for chain, act in acts:
        if act.kind in {"charge", "again", "lost"} and "column" not in act.body:
            runs = act.kind == "charge"
            each = Spent.of_json({"id": f"{chain}/{next(place)}", "running": runs, **act.body})
            found[each.id] = each
            if runs:
                running[each.release] = each.id
        elif act.kind == "end" and act.body["release"] in running:
            ended = found[running[act.body["release"]]]
            found[ended.id] = replace(ended, last=act.body["ingested"], running=False)
        for name, intrusions in _handed_over(chain, act).items():
            each = found[running[name]]
            found[each.id] = replace(each, intrusions=(*each.intrusions, *intrusions))
    return tuple(found.values())


def _handed_over(chain: str, act: Act) -> Mapping[str, Sequence[str]]:
    """Intrusions by release: one that happened here, or those of a history that was lost."""
    if act.kind == "intrusion":
        return {name: [chain] for name in act.body["releases"]}
    return act.body.get("intrusions", {}) if act.kind == "rolled back" else {}
