"""Every mechanism and every statistic of the package, with settings, as subjects: found by looking.

    counter         all releases of a mechanism, exactly and by experiment; as stated, if in (epsilon, delta)
    unit            the same claimed for windows and for users, where a mechanism can
    memory          the same with the memory of a pan-private one, which an intruder sees
    way             the same of runs that are saved and loaded, of groups and measures beside others, and in
                    every layout: widths, lengths of feeds, groups that are added
    adversary       the same to one who chooses the stream in view of past releases, of both kinds
    adapting        all that a mechanism which adapts to its data releases, with its memory if pan-private
    vectors         all that a statistic's counter releases
    published       all that a statistic tells
    seized          all that a pan-private estimator releases, with its memory: along all ways of chance
    local           all that a device which trusts nobody may send, once and again, and estimates of it
    twin            the mutants and their honest twins, by which the audit itself is judged

A class that needs a setting which is not known here is an error, not an omission.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from fractions import Fraction
from typing import Any, TypeVar

from streamgauge import adaptive, continual, statistics
from streamgauge.adaptive import Adaptive, PegasusHierarchy
from streamgauge.audit.adapting import subject_of
from streamgauge.audit.adaptive import AdaptiveSubject
from streamgauge.audit.chasing import ChasedSubject
from streamgauge.audit.driven import BESIDE, SAVED, DrivenSubject
from streamgauge.audit.exact import covered
from streamgauge.audit.happenings import Given, as_users, as_values
from streamgauge.audit.layouts import ALL_TICKS
from streamgauge.audit.local_claims import DEVICE, device_claims, local_claims, oracles
from streamgauge.audit.mechanisms import MechanismSubject
from streamgauge.audit.mutants import every_twin
from streamgauge.audit.pan_private import PanPrivateSubject
from streamgauge.audit.seized_claims import estimators, seized_claims
from streamgauge.audit.stated import StatedSubject
from streamgauge.audit.statistics import PublishedSubject, StatisticSubject
from streamgauge.audit.subject import Subject
from streamgauge.continual import Binary, Claim, Kary, Mechanism
from streamgauge.postprocess import Hierarchy
from streamgauge.privacy import Approx, Event, Loss, Pure, Unit, User, WEvent, XAdjacent, Zcdp
from streamgauge.statistics import Axis, Statistic, TopK

C = TypeVar("C", bound=Claim[Any, Any])
Settings = Mapping[str, Any]
COUNTER_TICKS = 7
MEASURED_TICKS = 64  # that are run at most, however many are computed
DRIVEN_TICKS = 24  # that are saved and loaded: each draw is tried by itself
FEW_TICKS = 3  # of statistics: all streams of a few events are gone through
SAVED_RUNS, BESIDE_RUNS = 5_000, 500  # the computation says the rest
SEIZED_RUNS = 2_000  # each is a run of its own
LOCAL_RUNS = 20_000  # the computation says the rest
ADAPTING_TICKS, ADAPTING_RUNS = 4, 2_000  # of those that decide for all groups together
CHASED_RUNS, FEW_CHASED = 4_000, 1_000  # against who chooses the stream
LOSSES: tuple[Loss, ...] = (Pure(1), Zcdp("1/2"))
STATED: Loss = Approx(1, Fraction(1, 1000))
UNITS: tuple[Unit, ...] = (WEvent(3), User(1, 2))  # besides one event
STATED_BY = ("SimpleII", "Binary", "SquareRoot")
ADAPTIVE = ("SimpleII", "Binary", "Kary", "SquareRoot")
REFUSALS = ("loss must be", "pan_private must be", "inner must be", "unit must be", "bound must be")

MECHANISMS: dict[str, Sequence[Settings]] = {
    "Kary": ({}, {"branching": 3}),
    "Binary": ({}, {"refine": True}),
    "Hybrid": ({}, {"inner": Binary, "growth": 2, "first": 1}, {"inner": Kary, "growth": 3}),
    "SubtractiveTree": ({}, {"branching": 3}),
    "TwoLevel": ({}, {"block_size": 3}),
    "WindowSum": ({"window": 1}, {"window": 3}, {"window": 4, "branching": 2}),
    "ExponentialDecay": ({"decay": "9/10"}, {"decay": "1/2"}),
    "PolynomialDecay": ({"exponent": 1}, {"exponent": "1/2"}),
    "Pegasus": ({}, {"split": "1/5", "theta": "1/10"}, {"block": 2}),
    "PegasusHierarchy": ({"hierarchy": Hierarchy([-1, 0, 0])},),
    "CascadingBuffers": ({"levels": 1, "kappa": 1},),
    "SparseCounter": ({}, {"threshold": 3, "signed": False}),
}


@dataclass(frozen=True)
class Kind:
    """How a statistic is tried: settings, and what events may carry."""

    settings: Settings
    carried: tuple[Any, ...]
    given: Given = as_values


def as_axes(rows: list[Any]) -> Settings:
    """Places in the plane."""
    sides = [[None if row is None else row[side] for row in rows] for side in (0, 1)]
    return {"values": {"x": sides[0], "y": sides[1]}}


NUMBERS: Settings = {"lower": -3, "upper": 2, "step": "1/2"}
AXIS: Settings = {"lower": 0, "upper": 8, "step": 1, "branching": 2}
PLANE: Settings = {"axes": {"x": Axis(0, 4, 1), "y": Axis(0, 2, 1)}, "branching": 2}
SWITCHES = "squares", "hashed", "cells"  # settings that are in the title
STATISTICS: dict[str, Sequence[Kind]] = {
    "Count": (Kind({}, (1, None)), Kind({"cells": 8, "window": "each"}, (1, None))),
    "Sum": (Kind(NUMBERS, (-7, 0, 2, None)),),
    "Mean": (Kind(NUMBERS, (-7, 0, 2, None)),),
    "Variance": (Kind(NUMBERS, (-7, 0, 2, None)),),
    "Summary": (Kind(NUMBERS, (-7, 0, 2)), Kind({**NUMBERS, "squares": True}, (-7, 0, 2))),
    "Histogram": (Kind({"domain": ("a", "b", "c")}, ("a", "b", "z")),),
    "TopK": (Kind({"domain": ("a", "b", "c"), "k": 2}, ("a", "b", "c", "z")),),
    "RangeCount": (Kind(PLANE, ((0, 0), (3.5, 1), (9, 9)), as_axes),),
    "Quantile": (Kind({**AXIS, "q": 0.5}, (-2, 3, 99)),),
    "Extremes": (Kind(AXIS, (-2, 3, 99)),),
    "Distinct": (
        Kind({"universe": 9}, (0, 1, 20), as_users),
        Kind({"universe": 9, "hashed": True}, (0, 1, 20), as_users),
    ),
}


@dataclass(frozen=True)
class Asked:
    """What is to be audited, where it is not everything."""

    ticks: int | None = None
    losses: tuple[Loss, ...] = LOSSES
    unit: Unit | None = None


@dataclass(frozen=True)
class Entry:
    """A subject, under a name that fits into a table; `guilty` if it must be condemned."""

    kind: str
    title: str
    subject: Subject
    guilty: bool = False
    why: str = ""
    runs: int | None = None  # enough for it, where the subject knows


def mechanisms() -> dict[str, type[Mechanism[Any]]]:
    """All that can be counted with."""
    return _classes(continual, Mechanism)


def adapting() -> dict[str, type[Adaptive[Any]]]:
    """All that adapt to their data."""
    return _classes(adaptive, Adaptive)


def statistics_of_all() -> dict[str, type[Statistic[Any]]]:
    """All that can be asked."""
    return _classes(statistics, Statistic)


def _classes(room: Any, root: type[Any]) -> dict[str, type[Any]]:
    found = {name: getattr(room, name) for name in room.__all__}
    return {name: cls for name, cls in found.items() if is_kind(cls, root)}


def is_kind(cls: Any, root: type[Any]) -> bool:
    return isinstance(cls, type) and issubclass(cls, root) and cls is not root


def names() -> list[str]:
    """What can be audited by name."""
    return [*mechanisms(), *adapting(), *statistics_of_all(), *estimators(), *oracles(), DEVICE]


def entries(name: str | None = None, asked: Asked | None = None) -> Iterator[Entry]:
    """All subjects of a name, or of the package; without a wish, in all losses and units that are tried."""
    chosen = asked or Asked()
    for called, cls in mechanisms().items():
        if name in (None, called):
            yield from _counters(cls, chosen)
            if asked is None:
                yield from _other_claims(cls)
    for called, found in adapting().items():
        if name in (None, called):
            units = [None, *UNITS[:1]] if asked is None else [asked.unit]
            yield from (entry for unit in units for entry in _adapting(found, replace(chosen, unit=unit)))
    for called, kind in statistics_of_all().items():
        if name in (None, called):
            yield from _statistics(kind, chosen)
    for called, estimator in estimators().items():
        if name in (None, called) and (chosen.unit is None or chosen.unit == XAdjacent()):
            yield from _seized(estimator, chosen)
    if chosen.unit in (None, Event(replace=True)):
        yield from _local(name, chosen)


def twins() -> Iterator[Entry]:
    """The controls: what must be condemned, and what must not."""
    for each in every_twin():
        yield Entry("twin", each.name, each.broken, True, each.why, each.runs)
        yield Entry("twin", f"{each.name}: honest", each.honest, False, each.why, each.runs)


def _counters(cls: type[Mechanism[Any]], asked: Asked) -> Iterator[Entry]:
    ticks = asked.ticks or COUNTER_TICKS
    driven: set[tuple[Loss, bool]] = set()
    run = min(ticks, MEASURED_TICKS)
    for claim, called in _claims(cls, ticks, asked):
        title = f"{called}, {covered(run, ticks)} run" if run < ticks else called
        if (claim.loss, claim.pan_private) not in driven:  # in its first settings
            driven.add((claim.loss, claim.pan_private))
            yield from _driven(claim, called, ticks)
            if asked.ticks is None:
                yield _laid_out(cls, claim, called, asked)
        if claim.pan_private:
            yield Entry("memory", f"{title}, pan-private", PanPrivateSubject(claim, run, asked_ticks=ticks))
            continue
        if claim.loss.currency == "approximate":
            yield Entry("counter", f"{title}, as stated", StatedSubject(claim, ticks, run=run))
        yield Entry("counter", title, MechanismSubject(claim, ticks, run=run))
        if cls.__name__ in ADAPTIVE and claim.unit == Event():
            yield Entry("adversary", f"{title}, adaptively", AdaptiveSubject(claim, run))


def _adapting(cls: type[Adaptive[Any]], asked: Asked) -> Iterator[Entry]:
    """In one unit; with the memory, if it is one event or the memory is always seen."""
    wanted = asked.ticks or ADAPTING_TICKS
    ticks = min(wanted, MEASURED_TICKS)
    claims = list(_claims(cls, wanted, asked))
    plain = [known for known in claims if not known[0].pan_private] if asked.unit is not None else []
    for claim, called in plain or claims:
        words = [called, "pan-private"] if claim.pan_private else [called]
        words += [] if asked.unit is None else [spoken(asked.unit)]
        words += [f"{covered(ticks, wanted)} run"] if ticks < wanted else []
        subject = subject_of(claim, ticks, peek=ticks // 2 if claim.pan_private else None)
        yield Entry("adapting", ", ".join(words), subject, runs=ADAPTING_RUNS if cls.JOINT else None)
    if asked.unit is None:
        yield from _chased(claims, ticks)


def _chased(claims: Sequence[tuple[Adaptive[Any], str]], ticks: int) -> Iterator[Entry]:
    """Against one who adapts as well; a hierarchy is chased level by level, as its `Pegasus`."""
    for claim, called in {called: (claim, called) for claim, called in reversed(claims)}.values():
        if not isinstance(claim, PegasusHierarchy):
            runs = FEW_CHASED if claim.JOINT else CHASED_RUNS
            yield Entry("adversary", f"{called}, adaptively", ChasedSubject(claim, ticks), runs=runs)


def _driven(claim: Mechanism[Any], title: str, ticks: int) -> Iterator[Entry]:
    """Saved and loaded; and beside others, which takes starts of its own and so has few runs."""
    words = f"{title}, pan-private" if claim.pan_private else title
    saved = DrivenSubject(claim, min(ticks, DRIVEN_TICKS), SAVED, asked=ticks)
    yield Entry("way", f"{words}, {SAVED.name}", saved, runs=SAVED_RUNS)
    if not claim.pan_private:
        beside = DrivenSubject(claim, min(ticks, 2), BESIDE, asked=ticks)
        yield Entry("way", f"{words}, {BESIDE.name}", beside, runs=BESIDE_RUNS)


def _laid_out(cls: type[Mechanism[Any]], claim: Mechanism[Any], title: str, asked: Asked) -> Entry:
    """Build the same claim over as many ticks as all layouts need."""
    wanted = claim.loss, claim.pan_private
    longer = next(
        each for each, _ in _claims(cls, ALL_TICKS, asked) if (each.loss, each.pan_private) == wanted
    )
    words = f"{title}, pan-private" if claim.pan_private else title
    subject = MechanismSubject(longer, ALL_TICKS, run=COUNTER_TICKS)
    return Entry("way", f"{words}, in every layout", subject, runs=SAVED_RUNS)


def _other_claims(cls: type[Mechanism[Any]]) -> Iterator[Entry]:
    """In other units; and of some, in (epsilon, delta) as stated."""
    for unit in UNITS:
        claims = list(_claims(cls, COUNTER_TICKS, Asked(unit=unit)))
        plain = [known for known in claims if not known[0].pan_private]
        for claim, title in plain or claims:
            subject = (MechanismSubject if plain else PanPrivateSubject)(claim, COUNTER_TICKS)
            yield Entry("unit", f"{title}, {spoken(unit)}", subject)
    if cls.__name__ in STATED_BY:
        claim, title = next(_claims(cls, COUNTER_TICKS, Asked(losses=(STATED,))))
        yield Entry("counter", f"{title}, as stated", StatedSubject(claim, COUNTER_TICKS))


def spoken(unit: Unit) -> str:
    """
    >>> spoken(WEvent(3)), spoken(User(1, 2))
    ('windows of 3', 'users of 2')
    """
    return f"{'windows' if unit.consecutive else 'users'} of {unit.ticks}"


def _claims(cls: type[C], ticks: int, asked: Asked) -> Iterator[tuple[C, str]]:
    known = {field.name: field for field in fields(cls)}  # type: ignore[arg-type]
    for settings in MECHANISMS.get(cls.__name__, ({},)):
        needed = {name for name, field in known.items() if field.default is MISSING}
        if unknown := needed - {"loss", "horizon", *settings}:
            raise TypeError(f"settings of {cls.__name__} must be in the catalogue, got none of {unknown}")
        unit = {} if asked.unit is None else {"unit": asked.unit, "bound": asked.unit.events}
        ends: Settings = {name: ticks for name in ("horizon", "last_tick") if name in known}
        for loss in asked.losses:
            ways: list[Settings] = [{}, {"pan_private": True}] if "pan_private" in known else [{}]
            claims = [made(cls, loss, {**ends, **settings, **unit, **way}) for way in ways]
            for claim in dict.fromkeys(claim for claim in claims if claim is not None):
                yield claim, titled(cls.__name__, settings)


def _statistics(cls: type[Statistic[Any]], asked: Asked) -> Iterator[Entry]:
    wanted = asked.ticks or FEW_TICKS
    ticks = min(wanted, MEASURED_TICKS)
    unit = {} if asked.unit is None else {"unit": asked.unit}
    if cls.__name__ not in STATISTICS:
        raise TypeError(f"settings of {cls.__name__} must be in the catalogue, got none")
    for kind in STATISTICS[cls.__name__]:
        for loss in asked.losses:
            claim = made(cls, loss, {"horizon": ticks, **kind.settings, **unit})
            if claim is None:
                continue
            title = titled(cls.__name__, {name: True for name in SWITCHES if name in kind.settings})
            title += f", {covered(ticks, wanted)}" if ticks < wanted else ""
            rest = (ticks, kind.carried)
            yield Entry("vectors", title, StatisticSubject(claim, *rest, 2, kind.given))
            if not isinstance(claim.unit, User):
                yield Entry("published", f"{title}, as told", PublishedSubject(claim, *rest, kind.given))
    if cls is TopK and asked.unit is None:
        found = TopK(Approx(1, Fraction(1, 100)), k=1, horizon=ticks)
        yield Entry("published", "TopK, keys discovered", PublishedSubject(found, ticks, ("a", "b")))


def _seized(cls: type[Any], asked: Asked) -> Iterator[Entry]:
    """Computed, all of them; the first besides by experiment."""
    for loss in asked.losses:
        if isinstance(loss, Pure):
            for place, (subject, settings) in enumerate(seized_claims(cls, loss)):
                runs = 0 if place else SEIZED_RUNS
                yield Entry("seized", titled(cls.__name__, settings), subject, runs=runs)


def _local(name: str | None, asked: Asked) -> Iterator[Entry]:
    """Reports of every kind, computed and by experiment; devices that are asked again, computed."""
    for loss in asked.losses:
        if not isinstance(loss, Pure):
            continue
        for called, oracle in oracles().items():
            for subject, settings in local_claims(oracle, loss) if name in (None, called) else ():
                yield Entry("local", titled(called, settings), subject, runs=LOCAL_RUNS)
        for device, title in device_claims(loss) if name in (None, DEVICE) else ():
            yield Entry("local", title, device, runs=0)


def made(cls: Any, loss: Loss, settings: Settings) -> Any:
    """A claim, or nothing where the package refuses it in its own words."""
    try:
        return cls(loss, **settings)
    except ValueError as refusal:
        if any(words in str(refusal) for words in REFUSALS):
            return None
        raise


def titled(name: str, settings: Settings) -> str:
    """
    >>> titled("Hybrid", {"inner": Binary, "growth": 2})
    'Hybrid(inner=Binary, growth=2)'
    """
    shown = [f"{key}={getattr(value, '__name__', value)}" for key, value in settings.items()]
    return f"{name}({', '.join(shown)})" if shown else name
