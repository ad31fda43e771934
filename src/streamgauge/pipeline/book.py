"""The book: what was charged, ended and raised, written as acts, from which the ledger is made anew.

    budget    how much every unit may lose            charge    a release, before its first tick
    pin       a block of the file, as it was used     end       a release that was taken out of the file, or
                                                                that was asked for and is no longer wanted
    again     ticks that are drawn from twice         lost      what a store charged that is no more
    cut       a release that was ended and ran on, and does so no more
    column    what devices' reports lose, however many releases read them: their charge is the column's

An act is never changed or removed; the ledger that follows from all of them is the same on every machine: the
unit is the one that was pinned with the stream, whatever a file says now.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from hashlib import sha256
from typing import Any

from streamgauge.pipeline.room import kept_bytes
from streamgauge.pipeline.spent import Spent
from streamgauge.pipeline.store import Act
from streamgauge.pipeline.work import work_of
from streamgauge.privacy import (
    Approx,
    Charge,
    Event,
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
)
from streamgauge.query.planner import Planned
from streamgauge.query.report_columns import ReportColumn
from streamgauge.query.settings import Stream


def loss_as_json(loss: Loss | Remainder) -> dict[str, str]:
    """
    >>> loss_as_json(Pure(0.5)), loss_of_json({"rho": "1/8"})
    ({'epsilon': '1/2'}, Zcdp(rho=1/8))
    """
    names = ("epsilon", "delta", "rho")
    return {name: str(getattr(loss, name)) for name in names if hasattr(loss, name)}


def report_as_json(report: ReportColumn) -> dict[str, Any]:
    """What a column of reports costs: one report, and one user."""
    told = {"protocol": report.protocol, "loss": loss_as_json(report.loss), "again": report.again}
    return told | {"reports_per_user": report.reports_per_user, "per_user": loss_as_json(report.per_user)}


def reports_as_json(stream: Stream) -> list[dict[str, Any]]:
    """The same of all of them."""
    return [{"column": name, **report_as_json(report)} for name, report in stream.reports.items()]


def collected_in(where: str, budget: Loss) -> str:
    """Where a column of reports is charged, with the way out where it takes much more than its epsilon."""
    return f"{where} (use a pure budget, {{ epsilon = ... }})" if isinstance(budget, Zcdp) else where


def loss_of_json(body: Mapping[str, str]) -> Loss:
    amounts = {name: Fraction(value) for name, value in body.items()}
    if "rho" in amounts:
        return Zcdp(amounts["rho"])
    if "delta" in amounts:
        return Approx(amounts["epsilon"], amounts["delta"])
    return Pure(amounts["epsilon"])


KINDS: tuple[Callable[..., Unit], ...] = (Event, Tick, WEvent, User, XAdjacent)
UNITS: Mapping[str, Callable[..., Unit]] = {kind.__name__: kind for kind in KINDS}


def pinned_unit(acts: Sequence[Act]) -> Unit | None:
    """The unit of the stream as it was charged, if it was."""
    texts = [act.body["text"] for act in acts if act.kind == "pin" and act.body["block"] == "stream"]
    if not texts:
        return None
    told = json.loads(texts[0])["unit"]
    return UNITS[told.pop("kind")](**told)


def block_hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()


class TooLate(ValueError):  # noqa: N818 - refusals are named by what they say
    """A release that would begin after the last tick."""


@dataclass
class Entry:
    """A release in the book."""

    name: str  # as it is published: with its edition, if it was run again
    charge: Charge
    first: int
    last: int | None
    block: str  # hash of the block of the file
    share: Fraction | None = None  # of the budget as it was then, if the file said so
    ended: int | None = None  # the last tick that was ingested
    runs_on: bool = False  # whether all up to there is published, however far it was when it was ended
    column: str | None = None  # of reports that it is read off: its charge is the column's
    asked: str | None = None  # the analyst who asked for it, if it was in no file
    keeps: int = 0  # bytes, at most, of one that was asked for
    works: int = 0  # milliseconds or so that it adds to a round

    @property
    def loss(self) -> Loss:
        """What it was charged."""
        return self.charge.timeline.steps[0].loss

    @property
    def until(self) -> int | None:
        """The last tick that it publishes, if there is one."""
        lasts = [tick for tick in (self.last, self.ended) if tick is not None]
        return min(lasts, default=None)

    @property
    def delta(self) -> Fraction:
        """What it was charged of the budget's delta, beside its loss."""
        return self.charge.delta


@dataclass
class Book:
    """All acts so far, and what follows from them."""

    unit: Unit
    ledger: Ledger | None = None
    pins: dict[str, str] = field(default_factory=dict)
    entries: dict[str, Entry] = field(default_factory=dict)
    acts: list[Act] = field(default_factory=list)
    columns: dict[str, Charge] = field(default_factory=dict)  # of reports

    @classmethod
    def read(cls, acts: Sequence[Act], unit: Unit) -> "Book":
        """The book that acts make; `unit` is for a stream of which nothing was charged."""
        book = cls(pinned_unit(acts) or unit)
        budgets = [act for act in acts if act.kind == "budget"]
        if budgets:
            book.ledger = Ledger(loss_of_json(budgets[-1].body["loss"]), book.unit)
        for act in acts:
            book._follow(act)
        return book

    def copy(self) -> "Book":
        """Another with the same acts: what is done there is not done here."""
        ledger = None if self.ledger is None else self.ledger.copy()
        entries = {name: replace(entry) for name, entry in self.entries.items()}
        return Book(self.unit, ledger, dict(self.pins), entries, list(self.acts), dict(self.columns))

    def grown(self, acts: Sequence[Act]) -> "Book":
        """The book of acts of which this one has the first: they are not followed again."""
        new = acts[len(self.acts) :]
        if self.ledger is None or any(act.kind == "budget" for act in new) or pinned_unit(new):
            return Book.read(acts, self.unit)
        book = self.copy()
        for act in new:
            book._follow(act)
        return book

    def open_releases(self) -> dict[str, Entry]:
        return {name: entry for name, entry in self.entries.items() if entry.ended is None}

    def at_work(self, over: Collection[str] = ()) -> dict[str, Entry]:
        """Those that are open, and those that have ended and run on; not those that are known to be over."""
        return {
            name: entry
            for name, entry in self.entries.items()
            if entry.ended is None or (entry.runs_on and entry.ended >= entry.first and name not in over)
        }

    def latest(self) -> dict[str, Entry]:
        """The last edition of each release, ended or not, by its name in the file."""
        return {base_name(name): entry for name, entry in self.entries.items()}

    def budget(self, loss: Loss) -> Act:
        """Declares a budget, the first or another: all charges so far must fit it."""
        act = Act("budget", {"loss": loss_as_json(loss)})
        again = Book.read([*self.acts, act], self.unit)
        self.ledger, self.entries, self.columns = again.ledger, again.entries, again.columns
        self.acts.append(act)
        return act

    def charge_columns(self, reports: Mapping[str, ReportColumn]) -> list[Act]:
        """Charges columns of reports, once: from the first tick on and for ever, whoever reads them."""
        return [
            self._done(Act("column", {"column": name, **report_as_json(report)}))
            for name, report in reports.items()
            if name not in self.columns
        ]

    def charge(self, name: str, plan: Planned, first: int) -> Act:
        """Charges a release: before anything of it is drawn. A refusal leaves no trace."""
        loss, last = loss_as_json(plan.release.loss), plan.last_tick(first)
        if last is not None and last < first:
            raise TooLate(f"release {name} must begin by tick {last}, the last one, got {first}")
        body: dict[str, Any] = {"release": name, "loss": loss, "first": first, "last": last}
        body |= {"block": block_hash(plan.block), "layout": plan.layout, "mechanisms": plan.mechanisms}
        if plan.release.share is not None:
            body["share"] = str(plan.release.share)
        if plan.query.report is not None:
            body["column"] = plan.query.report.column
        if plan.release.delta is not None:
            body["delta"] = str(plan.release.delta)
        if plan.release.asked is not None:
            told = {"title": plan.release.title, "description": plan.release.description}
            body |= {"asked": plan.release.asked, "keeps": kept_bytes(plan), "works": work_of(plan)}
            body |= {key: text for key, text in told.items() if text}
        return self._done(Act("charge", body))

    def again(self, name: str, until: int) -> Act:
        """Charges a release anew for the ticks up to `until`, which were drawn from twice."""
        entry = self.entries[name]
        last = until if entry.last is None else min(until, entry.last)
        body = {"release": name, "loss": loss_as_json(entry.loss), "first": entry.first, "last": last}
        if entry.delta:
            body["delta"] = str(entry.delta)
        return self._done(Act("again", body))

    def lost(self, spent: Spent) -> Act:
        """Enters what a store charged whose place this one has taken."""
        return self._done(Act("lost", spent.as_json()))

    def end(self, name: str, last: int, *, runs_on: bool = False) -> Act:
        """Ends a release, whose last tick is `last`; what was told to be ingested stays so."""
        body: dict[str, Any] = {"release": name, "ingested": max(last, self.ended)}
        return self._done(Act("end", body | ({"runs_on": True} if runs_on else {})))

    def cut(self, name: str) -> Act:
        """A release that was ended runs on no more; what was told to be ingested stays so."""
        return self._done(Act("cut", {"release": name}))

    @property
    def ended(self) -> int:
        """The last tick of all releases that have ended."""
        return max((entry.ended or 0 for entry in self.entries.values()), default=0)

    def pin(self, blocks: Mapping[str, str]) -> list[Act]:
        """Fixes blocks of the file as they are used now."""
        new = {name: text for name, text in blocks.items() if self.pins.get(name) != block_hash(text)}
        return [
            self._done(Act("pin", {"block": name, "hash": block_hash(text), "text": text}))
            for name, text in new.items()
        ]

    def note(self, kind: str, body: Mapping[str, Any]) -> Act:
        return self._done(Act(kind, dict(body)))

    def _done(self, act: Act) -> Act:
        self._follow(act)
        return act

    def _follow(self, act: Act) -> None:
        charged = dict.fromkeys(("charge", "again", "lost"), self._charged)
        follow = {**charged, "end": self._ended, "cut": self._cut, "pin": self._pinned}
        follow["column"] = self._collected
        if act.kind in follow:
            follow[act.kind](act)
        self.acts.append(act)

    def _collected(self, act: Act) -> None:
        ledger, name = self._declared(), act.body["column"]
        try:
            self.columns[name] = ledger.charge(f"column {name}", loss_of_json(act.body["loss"]))
        except PrivacyError as refusal:
            refusal.add_note(collected_in(f"column {name}", ledger.budget))
            raise

    def _declared(self) -> Ledger:
        if self.ledger is None:
            raise ValueError("a budget must be declared before a charge, got none")
        return self.ledger

    def _charge(self, body: Mapping[str, Any]) -> Charge:
        """What a release takes by itself; one that is read off reports has the charge of their column."""
        ledger, unit = self._declared(), self.unit
        if "column" in body:
            return self.columns[body["column"]]
        whole: dict[str, Any] = {
            "native": not isinstance(unit, Event | Tick),
            "per_tick": isinstance(unit, Tick),
            "delta": Fraction(body.get("delta", 0)),
        }
        loss = loss_of_json(body["loss"])
        try:
            return ledger.charge(body["release"], loss, body["first"], body["last"], **whole)
        except PrivacyError as refusal:
            refusal.add_note(f"release {body['release']}")
            raise

    def _charged(self, act: Act) -> None:
        body, charge = act.body, self._charge(act.body)
        if act.kind == "charge":
            name, share = body["release"], body.get("share")
            self.entries[name] = Entry(
                name,
                charge,
                body["first"],
                body["last"],
                body["block"],
                share and Fraction(share),
                column=body.get("column"),
                asked=body.get("asked"),
                keeps=body.get("keeps", 0),
                works=body.get("works", 0),
            )

    def _ended(self, act: Act) -> None:
        entry = self.entries[act.body["release"]]
        if self.ledger is not None and entry.column is None:  # what devices have lost stays lost
            entry.charge = self.ledger.end(entry.charge, ingested=act.body["ingested"])
        entry.ended, entry.runs_on = act.body["ingested"], act.body.get("runs_on", False)

    def _cut(self, act: Act) -> None:
        self.entries[act.body["release"]].runs_on = False

    def _pinned(self, act: Act) -> None:
        self.pins[act.body["block"]] = act.body["hash"]


def base_name(published: str) -> str:
    """A release that was run again is published as name@2: the name in the file is the same."""
    return published.partition("@")[0]
