"""The ledger log: append-only entries, from which the ledger is computed.

    budget       the loss that each unit may have
    charge       a release, before its first tick
    pin          a block of the file, as it was used
    end          a release that was removed from the file, or an ad hoc release that was ended
    force_end    an ended release that still ran, and no longer does
    recharge     ticks that are drawn twice
    lost_charge  a charge of a store that no longer exists
    column       the loss of devices' reports, for any number of releases that read them; their charge is the column's

An entry is never changed or removed. The ledger that follows from all of them is the same on every machine: the unit
is the one that was pinned with the stream, also if the file has changed.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from hashlib import sha256
from typing import Any

from streamgauge.config.columns import ReportColumn
from streamgauge.config.errors import InvalidReleaseError
from streamgauge.config.settings import Stream
from streamgauge.plan.planner import ReleasePlan
from streamgauge.privacy import (
    Approx,
    BudgetExceededError,
    Charge,
    Event,
    IntegerZcdp,
    Ledger,
    Loss,
    PrivacyError,
    Pure,
    Remainder,
    Tick,
    Unit,
    User,
    WEvent,
    XAdjacent,
    Zcdp,
    is_charged_whole,
)
from streamgauge.releases.schema import base_name
from streamgauge.runtime.format import request_text
from streamgauge.runtime.plan.limits import cpu_ms, memory_bytes
from streamgauge.store.rollback_guard import RecordedCharge
from streamgauge.store.store import LedgerEntry

INTEGER_ORDERS = "integer"  # in JSON, the orders that an `IntegerZcdp` bounds


def loss_as_json(loss: Loss | Remainder | None) -> dict[str, str] | None:
    """Return a loss as JSON, with exact fractions; null if there is none.

    >>> loss_as_json(Pure(0.5)), parse_loss({"rho": "1/8"}), parse_loss({"rho": "1/8", "orders": "integer"})
    ({'epsilon': '1/2'}, Zcdp(rho=1/8), IntegerZcdp(rho=1/8))
    """
    if loss is None:
        return None
    names = ("epsilon", "delta", "rho")
    orders = {"orders": INTEGER_ORDERS} if isinstance(loss, IntegerZcdp) else {}
    return {name: str(getattr(loss, name)) for name in names if hasattr(loss, name)} | orders


def report_as_json(report: ReportColumn) -> dict[str, Any]:
    """Return the cost of a column of reports: of one report, and of one user."""
    cost = {"protocol": report.protocol, "loss": loss_as_json(report.loss), "on_repeat": report.on_repeat}
    return cost | {"reports_per_user": report.reports_per_user, "per_user": loss_as_json(report.user_loss)}


def reports_as_json(stream: Stream) -> list[dict[str, Any]]:
    """Return the costs of all columns of reports."""
    return [{"column": name, **report_as_json(report)} for name, report in stream.reports.items()]


def describe_charge_key(where: str, budget: Loss) -> str:
    """Return the key that is charged, with advice if the budget is zCDP.

    There, a column of reports costs much more than its epsilon.
    """
    return f"{where} (use a pure budget, {{ epsilon = ... }})" if isinstance(budget, Zcdp) else where


def parse_loss(body: Mapping[str, str]) -> Loss:
    amounts = {name: Fraction(value) for name, value in body.items() if name != "orders"}
    if body.get("orders", INTEGER_ORDERS) != INTEGER_ORDERS:
        raise ValueError(f"orders must be {INTEGER_ORDERS}, got another")
    if "rho" in amounts:
        return IntegerZcdp(amounts["rho"]) if "orders" in body else Zcdp(amounts["rho"])
    if "delta" in amounts:
        return Approx(amounts["epsilon"], amounts["delta"])
    return Pure(amounts["epsilon"])


UNIT_TYPES: tuple[Callable[..., Unit], ...] = (Event, Tick, WEvent, User, XAdjacent)
UNITS: Mapping[str, Callable[..., Unit]] = {kind.__name__: kind for kind in UNIT_TYPES}


def find_pinned_unit(acts: Sequence[LedgerEntry]) -> Unit | None:
    """Return the unit of the charged stream, or None."""
    texts = [act.body["text"] for act in acts if act.kind == "pin" and act.body["block"] == "stream"]
    if not texts:
        return None
    unit = json.loads(texts[0])["unit"]
    return UNITS[unit.pop("kind")](**unit)


def hash_block(text: str) -> str:
    return sha256(text.encode()).hexdigest()


CHARGE_KEYS = ("first", "last", "block", "column", "requested_by", "memory_bytes", "cpu_ms", "reads")  # as in the entry


@dataclass(frozen=True)
class ChargedRelease:
    """A release in the ledger log."""

    name: str  # as published: with its edition, if it was run again
    charge: Charge
    first: int
    last: int | None
    block: str  # hash of the block of the file
    share: Fraction | None = None  # of the budget at the time of the charge, if the file has a share
    end_tick: int | None = None  # last ingested tick
    last_row_tick: int | None = None  # of an ended tumbling release: its open period has no row
    is_draining: bool = False  # True if it still publishes all ticks up to `drain_tick`
    column: str | None = None  # column of reports that it reads, whose charge is its own
    requested_by: str | None = None  # the analyst of an ad hoc release
    memory_bytes: int = 0  # upper bound, of an ad hoc release
    cpu_ms: int = 0  # approximate work that it adds to a round
    reads: Sequence[str] = ()  # columns of the stream that its query reads

    @property
    def loss(self) -> Loss:
        """The charged loss."""
        return self.charge.timeline.steps[0].loss

    @property
    def declared_loss(self) -> Loss:
        """The charged loss as it was declared: its mechanisms decide at which orders it is charged."""
        return self.loss.sufficient_loss if isinstance(self.loss, IntegerZcdp) else self.loss

    @property
    def drain_tick(self) -> int | None:
        """The last tick that it publishes if it has ended."""
        return self.end_tick if self.last_row_tick is None else self.last_row_tick

    @property
    def final_tick(self) -> int | None:
        """The last tick that it publishes, or None."""
        lasts = [tick for tick in (self.last, self.drain_tick) if tick is not None]
        return min(lasts, default=None)

    @property
    def delta(self) -> Fraction:
        """The charged part of the budget's delta, in addition to the loss."""
        return self.charge.delta


@dataclass
class LedgerLog:
    """All entries so far, and the ledger that follows from them."""

    unit: Unit
    ledger: Ledger | None = None
    pins: dict[str, str] = field(default_factory=dict)
    releases: dict[str, ChargedRelease] = field(default_factory=dict)
    ledger_entries: list[LedgerEntry] = field(default_factory=list)
    columns: dict[str, Charge] = field(default_factory=dict)  # by name of the column of reports

    @classmethod
    def read(cls, acts: Sequence[LedgerEntry], unit: Unit) -> "LedgerLog":
        """Return the log of these entries. `unit` is for a stream without charges."""
        log = cls(find_pinned_unit(acts) or unit)
        budgets = [act for act in acts if act.kind == "budget"]
        if budgets:
            log.ledger = Ledger(parse_loss(budgets[-1].body["loss"]), log.unit)
        for act in acts:
            log._append(act)
        return log

    def copy(self) -> "LedgerLog":
        """Return an independent copy."""
        ledger = None if self.ledger is None else self.ledger.copy()
        releases, entries = dict(self.releases), list(self.ledger_entries)
        return LedgerLog(self.unit, ledger, dict(self.pins), releases, entries, dict(self.columns))

    def with_entries(self, acts: Sequence[LedgerEntry]) -> "LedgerLog":
        """Return the log of entries that begin with those of this log.

        Only the new ones are applied, unless they change the budget or the unit.
        """
        new = acts[len(self.ledger_entries) :]
        if self.ledger is None or any(act.kind == "budget" for act in new) or find_pinned_unit(new):
            return LedgerLog.read(acts, self.unit)
        log = self.copy()
        for act in new:
            log._append(act)
        return log

    def open_releases(self) -> dict[str, ChargedRelease]:
        return {name: entry for name, entry in self.releases.items() if entry.end_tick is None}

    def active_releases(self, finished: Collection[str] = ()) -> dict[str, ChargedRelease]:
        """Return the open releases, and the ended ones that still run.

        `finished` releases are excluded.
        """
        return {
            name: entry
            for name, entry in self.releases.items()
            if entry.drain_tick is None
            or (entry.is_draining and entry.drain_tick >= entry.first and name not in finished)
        }

    def latest_releases(self) -> dict[str, ChargedRelease]:
        """Return the last edition of each release, ended or not, by its name in the file."""
        return {base_name(name) if "@" in name else name: entry for name, entry in self.releases.items()}

    def declare_budget(self, loss: Loss) -> LedgerEntry:
        """Declare the first or another budget. All charges so far must fit it."""
        act = LedgerEntry("budget", {"loss": loss_as_json(loss)})
        again = LedgerLog.read([*self.ledger_entries, act], self.unit)
        self.ledger, self.releases, self.columns = again.ledger, again.releases, again.columns
        self.ledger_entries.append(act)
        return act

    def charge_columns(self, reports: Mapping[str, ReportColumn]) -> list[LedgerEntry]:
        """Charge columns of reports, once, from the first tick on and without an end.

        The charge does not depend on the releases that read them.
        """
        return [
            self._append(LedgerEntry("column", {"column": name, **report_as_json(report)}))
            for name, report in reports.items()
            if name not in self.columns
        ]

    def charge(self, name: str, plan: ReleasePlan, first: int) -> LedgerEntry:
        """Charge a release before any of its noise is drawn. A refusal leaves no trace."""
        loss, last = loss_as_json(plan.charged_loss), plan.last_tick(first)
        if last is not None and last < first:
            raise InvalidReleaseError(f"release {name} must begin by tick {last}, the last one, got {first}")
        body: dict[str, Any] = {"release": name, "loss": loss, "first": first, "last": last}
        body |= {"block": hash_block(plan.block), "layout": plan.layout, "mechanisms": plan.mechanisms}
        body["reads"] = sorted(plan.query.columns)
        release = plan.release
        if release.share is not None:
            body["share"] = str(release.share)
        if plan.query.report is not None:
            body["column"] = plan.query.report.column
        if release.delta is not None:
            body["delta"] = str(release.delta)
        if release.requested_by is not None:
            body |= {"requested_by": release.requested_by, "memory_bytes": memory_bytes(plan), "cpu_ms": cpu_ms(plan)}
            texts = {"title": release.title, "description": release.description}
            body |= {key: text for key, text in texts.items() if text}
        return self._append(LedgerEntry("charge", body))

    def recharge(self, name: str, until: int) -> LedgerEntry:
        """Charge a release again for the ticks up to `until`, which were drawn twice."""
        entry = self.releases[name]
        last = until if entry.last is None else min(until, entry.last)
        body = {"release": name, "loss": loss_as_json(entry.loss), "first": entry.first, "last": last}
        if entry.delta:
            body["delta"] = str(entry.delta)
        return self._append(LedgerEntry("recharge", body))

    def enter_lost_charge(self, spent: RecordedCharge) -> LedgerEntry:
        """Enter a charge of a store that this one has replaced."""
        return self._append(LedgerEntry("lost_charge", spent.to_json()))

    def end(self, name: str, last: int, *, is_draining: bool = False, last_row_tick: int | None = None) -> LedgerEntry:
        """End a release at tick `last`. Ticks recorded as ingested stay so."""
        body: dict[str, Any] = {"release": name, "last_tick": max(last, self.last_end_tick)}
        body |= {} if last_row_tick is None else {"last_row_tick": last_row_tick}
        return self._append(LedgerEntry("end", body | ({"is_draining": True} if is_draining else {})))

    def stop_draining(self, name: str) -> LedgerEntry:
        """Stop an ended release that still runs. Ticks recorded as ingested stay so."""
        return self._append(LedgerEntry("force_end", {"release": name}))

    @property
    def last_end_tick(self) -> int:
        """The last tick of all ended releases."""
        return max((entry.end_tick or 0 for entry in self.releases.values()), default=0)

    def pin(self, blocks: Mapping[str, str], columns: Sequence[str] = ()) -> list[LedgerEntry]:
        """Pin blocks of the file as they are used now. `columns` are those that an edit of the stream changed."""
        new = {name: text for name, text in blocks.items() if self.pins.get(name) != hash_block(text)}
        edited = {"stream": {"columns": list(columns)}} if columns else {}
        return [
            self._append(
                LedgerEntry("pin", {"block": name, "hash": hash_block(text), "text": text, **edited.get(name, {})})
            )
            for name, text in new.items()
        ]

    def note(self, kind: str, body: Mapping[str, Any]) -> LedgerEntry:
        return self._append(LedgerEntry(kind, dict(body)))

    def _append(self, act: LedgerEntry) -> LedgerEntry:
        """Apply an entry to the ledger, then append it. A refused one leaves no trace."""
        if act.kind in ("charge", "recharge", "lost_charge"):
            self._apply_charge(act)
        elif act.kind == "end":
            self._apply_end(act)
        elif act.kind == "force_end":
            name = act.body["release"]
            self.releases[name] = replace(self.releases[name], is_draining=False)
        elif act.kind == "pin":
            self.pins[act.body["block"]] = act.body["hash"]
        elif act.kind == "column":
            self._apply_column(act)
        self.ledger_entries.append(act)
        return act

    def _apply_column(self, act: LedgerEntry) -> None:
        ledger, name = self.require_ledger(), act.body["column"]
        try:
            self.columns[name] = ledger.charge(f"column {name}", parse_loss(act.body["loss"]))
        except PrivacyError as refusal:
            refusal.add_note(describe_charge_key(f"column {name}", ledger.budget))
            raise

    def require_ledger(self) -> Ledger:
        """Return the ledger; reject a charge before a budget is declared."""
        if self.ledger is None:
            raise ValueError("a budget must be declared before a charge, got none")
        return self.ledger

    def _compute_charge(self, body: Mapping[str, Any]) -> Charge:
        """Return the charge of a release, or that of its column of reports."""
        ledger, unit = self.require_ledger(), self.unit
        if "column" in body:
            return self.columns[body["column"]]
        whole: dict[str, Any] = {
            "native": is_charged_whole(unit),
            "per_tick": isinstance(unit, Tick),
            "delta": Fraction(body.get("delta", 0)),
        }
        loss = parse_loss(body["loss"])
        try:
            return ledger.charge(body["release"], loss, body["first"], body["last"], **whole)
        except PrivacyError as refusal:
            refusal.add_note(f"release {body['release']}")
            if isinstance(refusal, BudgetExceededError):
                span = (body["first"], body["last"])
                left = ledger.remaining_loss(*span), ledger.remaining_epsilon(*span)
                share = Fraction(body["share"]) if "share" in body else None
                refusal.note = request_text(loss, share, ledger.budget, *left)
            raise

    def _apply_charge(self, act: LedgerEntry) -> None:
        body, charge = act.body, self._compute_charge(act.body)
        if act.kind == "charge":
            name, share = body["release"], body.get("share")
            rest = {key: body[key] for key in CHARGE_KEYS if key in body}
            self.releases[name] = ChargedRelease(name=name, charge=charge, share=share and Fraction(share), **rest)

    def _apply_end(self, act: LedgerEntry) -> None:
        entry, last = self.releases[act.body["release"]], act.body["last_tick"]
        charge = entry.charge
        if self.ledger is not None and entry.column is None:  # the loss of devices is not returned
            charge = self.ledger.end(charge, ingested=last)
        rest = {"is_draining": act.body.get("is_draining", False), "last_row_tick": act.body.get("last_row_tick")}
        self.releases[entry.name] = replace(entry, charge=charge, end_tick=last, **rest)
