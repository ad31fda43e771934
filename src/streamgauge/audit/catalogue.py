"""Every mechanism and every statistic of the package, with settings, as subjects.

    counter      all releases of a mechanism, exactly and by experiment; (epsilon, delta) as stated
    unit         the same claimed for windows and for users
    memory       the same with the memory of a pan-private mechanism, which an intruder sees
    way          the same of runs that are saved and loaded, that have other groups and measures, and in every layout
    adversary    the same to an adversary who chooses the stream in view of past releases
    adapting     all releases of an adaptive mechanism, with its memory if it is pan-private
    vectors      all releases of a statistic's counter
    published    all releases of a statistic
    seized       all releases of a pan-private estimator, with its memory, in all branches of chance
    local        all reports of a device, once and repeated, and estimates from them
    sketch       all releases of a sketch, with its memory if it may be seized
    twin         the broken twins and their honest ones, which test the audit itself

The package is searched for classes. A class that needs an unknown setting is an error, not an omission.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any, TypeVar

from streamgauge import adaptive, continual, statistics
from streamgauge.adaptive import AdaptiveMechanism, PegasusHierarchy
from streamgauge.audit.broken import every_twin
from streamgauge.audit.exact.worst_case import describe_coverage
from streamgauge.audit.subject import Settings, Subject, list_settings
from streamgauge.audit.subjects.adaptive import AdaptiveMechanismSubject
from streamgauge.audit.subjects.adversaries import AdversarySubject
from streamgauge.audit.subjects.layouts import ALL_TICKS
from streamgauge.audit.subjects.local import DEVICE_NAME, build_device_subjects, build_local_subjects, find_oracles
from streamgauge.audit.subjects.mechanisms import OTHER_GROUPS, SAVED_AND_LOADED, ExecutionModeSubject, MechanismSubject
from streamgauge.audit.subjects.pan_private import PanPrivateSubject
from streamgauge.audit.subjects.sketches import MISRA_GRIES_LOSS, SKETCH_RUNS, build_sketch_subjects, find_sketches
from streamgauge.audit.subjects.statistics import (
    ColumnBuilder,
    PublishedSubject,
    StatisticSubject,
    to_user_columns,
    to_value_columns,
)
from streamgauge.audit.subjects.user_tables import build_user_table_subjects, find_estimators
from streamgauge.continual import Binary, Kary, LinearMechanism, Mechanism
from streamgauge.continual.mechanism import MECHANISMS
from streamgauge.noise.entropy import KEY_BYTES
from streamgauge.postprocess import Hierarchy
from streamgauge.privacy import Approx, Event, IntegerZcdp, Loss, Pure, Unit, User, WEvent, XAdjacent, Zcdp
from streamgauge.statistics import Axis, Statistic, TopK

C = TypeVar("C", bound=Mechanism[Any, Any])
COUNTER_TICKS = 7
MEASURED_TICKS = 64  # that are run at most, however many are computed
EXECUTION_MODE_TICKS = 24  # that are saved and loaded: each draw is tried by itself
STATISTIC_TICKS = 3  # of statistics: all streams of a few events are tried
SAVE_AND_LOAD_RUNS, OTHER_GROUPS_RUNS = 5_000, 500  # the computation says the rest
USER_TABLE_RUNS = 2_000  # each is a run of its own
LOCAL_RUNS = 20_000  # the computation says the rest
ADAPTIVE_TICKS, ADAPTIVE_RUNS = 4, 2_000  # of those that decide for all groups together
ADVERSARY_RUNS, JOINT_ADVERSARY_RUNS = 4_000, 1_000  # against who chooses the stream
LOSSES: tuple[Loss, ...] = (Pure(1), Zcdp("1/2"), IntegerZcdp("1/2"))
APPROX_LOSS: Loss = Approx(1, Fraction(1, 1000))
UNITS: tuple[Unit, ...] = (WEvent(3), User(1, 2))  # besides one event
APPROX_MECHANISMS = ("SimpleII", "Binary", "SquareRoot")
ADVERSARY_MECHANISMS = ("SimpleII", "Binary", "Kary", "SquareRoot")
REFUSAL_PREFIXES = ("loss must be", "pan_private must be", "inner must be", "unit must be", "bound must be")

MECHANISM_SETTINGS: dict[str, Sequence[Settings]] = {
    "Kary": ({}, {"branching": 3}),
    "Binary": ({}, {"refine": True}),
    "BufferedToeplitz": ({}, {"normalised": True}),
    "Hybrid": ({}, {"inner": Binary, "growth": 2, "first": 1}, {"inner": Kary, "growth": 3}),
    "BridgeTree": ({}, {"radices": (2, 2)}, {"radices": (3,)}),
    "EndlessBridge": ({}, {"first": 2, "growth": 2}),
    "PastBridge": ({}, {"radices": (2, 2)}),
    "SubtractiveTree": ({}, {"branching": 3}),
    "TwoPart": ({}, {"radices": (2, 2)}),
    "TwoLevel": ({}, {"block_size": 3}),
    "WindowSum": ({"window": 1}, {"window": 3}, {"window": 4, "branching": 2}),
    "WindowBridge": ({"window": 3}, {"window": 4, "radices": (3,)}),
    "ExponentialDecay": ({"decay": "9/10"}, {"decay": "1/2"}),
    "PolynomialDecay": ({"exponent": 1}, {"exponent": "1/2"}),
    "Pegasus": ({}, {"split": "1/5", "theta": "1/10"}, {"block": 2}),
    "PegasusHierarchy": ({"hierarchy": Hierarchy([-1, 0, 0])},),
    "CascadingBuffers": ({"levels": 1, "kappa": 1},),
    "SparseCounter": ({}, {"threshold": 3, "signed": False}),
}


@dataclass(frozen=True)
class StatisticCase:
    """Settings of a statistic that is tried, and values that events may carry."""

    settings: Settings
    event_values: tuple[Any, ...]
    to_columns: ColumnBuilder = to_value_columns


def to_axes(rows: list[Any]) -> Settings:
    """Return points of the plane as two columns."""
    sides = [[None if row is None else row[side] for row in rows] for side in (0, 1)]
    return {"values": {"x": sides[0], "y": sides[1]}}


NUMBER_SETTINGS: Settings = {"lower": -3, "upper": 2, "step": "1/2"}
AXIS_SETTINGS: Settings = {"lower": 0, "upper": 8, "step": 1, "branching": 2}
PLANE_SETTINGS: Settings = {"axes": {"x": Axis(0, 4, 1), "y": Axis(0, 2, 1)}, "branching": 2}
TITLE_SETTINGS = "squares", "hashed", "cells", "max_changes"  # settings that are in the title
SKETCH_SETTINGS: Settings = {"items": ("a", "b"), "rows": 3, "hash_columns": 2, "key": (107).to_bytes(KEY_BYTES, "big")}
STATISTIC_CASES: dict[str, Sequence[StatisticCase]] = {
    "ApproxFrequency": (StatisticCase(SKETCH_SETTINGS, ("a", "b", "z")),),
    "Count": (StatisticCase({}, (1, None)), StatisticCase({"cells": 8, "window": "each"}, (1, None))),
    "Sum": (StatisticCase(NUMBER_SETTINGS, (-7, 0, 2, None)),),
    "Mean": (StatisticCase(NUMBER_SETTINGS, (-7, 0, 2, None)),),
    "Variance": (StatisticCase(NUMBER_SETTINGS, (-7, 0, 2, None)),),
    "Summary": (
        StatisticCase(NUMBER_SETTINGS, (-7, 0, 2)),
        StatisticCase({**NUMBER_SETTINGS, "squares": True}, (-7, 0, 2)),
    ),
    "Histogram": (StatisticCase({"domain": ("a", "b", "c")}, ("a", "b", "z")),),
    "TopK": (StatisticCase({"domain": ("a", "b", "c"), "k": 2}, ("a", "b", "c", "z")),),
    "RangeCount": (StatisticCase(PLANE_SETTINGS, ((0, 0), (3.5, 1), (9, 9)), to_axes),),
    "Quantile": (StatisticCase({**AXIS_SETTINGS, "q": 0.5}, (-2, 3, 99)),),
    "Extremes": (StatisticCase(AXIS_SETTINGS, (-2, 3, 99)),),
    "Distinct": (
        StatisticCase({"universe": 9}, (0, 1, 20), to_user_columns),
        StatisticCase({"universe": 9, "hashed": True}, (0, 1, 20), to_user_columns),
        StatisticCase({"universe": 9, "max_changes": 2}, (0, 1, 20), to_user_columns),
    ),
}


@dataclass(frozen=True)
class AuditRequest:
    """Ticks, losses and unit of a restricted audit."""

    ticks: int | None = None
    losses: tuple[Loss, ...] = LOSSES
    unit: Unit | None = None


@dataclass(frozen=True)
class CatalogueEntry:
    """A subject, under a name that fits into a table; `is_broken` if it must be condemned."""

    kind: str
    title: str
    subject: Subject
    is_broken: bool = False
    reason: str = ""
    runs: int | None = None  # enough for it, where the subject knows


def find_mechanisms() -> dict[str, type[LinearMechanism[Any]]]:
    """Return all linear mechanisms."""
    return _find_classes(continual, LinearMechanism)


def find_outside(name: str | None, root: type[Any]) -> dict[str, type[Any]]:
    """Return the mechanism of another installed package that is named, if it is of a kind."""
    if name is None or name in {*find_mechanisms(), *find_adaptive()} or name not in MECHANISMS.names(None):
        return {}
    found = MECHANISMS.load(name, None)
    return {name: found} if isinstance(found, type) and issubclass(found, root) else {}


def find_adaptive() -> dict[str, type[AdaptiveMechanism[Any]]]:
    """Return all mechanisms that adapt to their data."""
    return _find_classes(adaptive, AdaptiveMechanism)


def find_statistics() -> dict[str, type[Statistic[Any]]]:
    """Return all statistics."""
    return _find_classes(statistics, Statistic)


def _find_classes(package: Any, root: type[Any]) -> dict[str, type[Any]]:
    found = {name: getattr(package, name) for name in package.__all__}
    classes = {name: cls for name, cls in found.items() if isinstance(cls, type) and cls is not root}
    return {name: cls for name, cls in classes.items() if issubclass(cls, root)}


def list_names() -> list[str]:
    """Return all names that can be audited."""
    found = [*find_mechanisms(), *find_adaptive(), *find_statistics(), *find_estimators(), *find_oracles()]
    found += [*find_sketches(), DEVICE_NAME]
    return [*found, *(name for name in MECHANISMS.names(None) if name not in found)]


def list_entries(name: str | None = None, request: AuditRequest | None = None) -> Iterator[CatalogueEntry]:
    """List all subjects of a name, or of the package; without a request, in all losses and units."""
    chosen = request or AuditRequest()

    def select(classes: dict[str, type[Any]]) -> list[type[Any]]:
        return [cls for called, cls in classes.items() if name in (None, called)]

    for cls in select({**find_mechanisms(), **find_outside(name, LinearMechanism)}):
        yield from _list_counters(cls, chosen)
        yield from _list_other_claims(cls) if request is None else ()
    for cls in select({**find_adaptive(), **find_outside(name, AdaptiveMechanism)}):
        for unit in [None, *UNITS[:1]] if request is None else [request.unit]:
            yield from _list_adaptive(cls, replace(chosen, unit=unit))
    for cls in select(find_statistics()):
        yield from _list_statistics(cls, chosen)
    for cls in select(find_estimators()) if chosen.unit in (None, XAdjacent()) else ():
        yield from _list_user_tables(cls, chosen)
    if chosen.unit in (None, Event(replace=True)):
        yield from _list_local(name, chosen)
    for cls in select(find_sketches()) if chosen.unit in (None, Event()) else ():
        yield from _list_sketches(cls, chosen)


def list_twins() -> Iterator[CatalogueEntry]:
    """List the controls: broken twins and their honest ones."""
    for each in every_twin():
        yield CatalogueEntry("twin", each.name, each.broken, True, each.reason, each.runs)
        yield CatalogueEntry("twin", f"{each.name}: honest", each.honest, False, each.reason, each.runs)


def _list_counters(cls: type[LinearMechanism[Any]], request: AuditRequest) -> Iterator[CatalogueEntry]:
    ticks = request.ticks or COUNTER_TICKS
    driven: set[tuple[Loss, bool]] = set()
    run = min(ticks, MEASURED_TICKS)
    for claim, called in _build_claims(cls, ticks, request):
        title = f"{called}, {describe_coverage(run, ticks)} run" if run < ticks else called
        if (claim.loss, claim.pan_private) not in driven:  # in its first settings
            driven.add((claim.loss, claim.pan_private))
            words = f"{called}, pan-private" if claim.pan_private else called
            modes = [(SAVED_AND_LOADED, EXECUTION_MODE_TICKS, SAVE_AND_LOAD_RUNS)]
            modes += [] if claim.pan_private else [(OTHER_GROUPS, 2, OTHER_GROUPS_RUNS)]  # a start each, and so few
            for mode, size, runs in modes:
                other = ExecutionModeSubject(claim, min(ticks, size), mode, requested_ticks=ticks)
                yield CatalogueEntry("way", f"{words}, {mode.name}", other, runs=runs)
            if request.ticks is None:  # the same claim over as many ticks as all layouts need
                claims = (each for each, _ in _build_claims(cls, ALL_TICKS, request))
                longer = next(e for e in claims if (e.loss, e.pan_private) == (claim.loss, claim.pan_private))
                subject = MechanismSubject(longer, ALL_TICKS, max_run_ticks=COUNTER_TICKS)
                yield CatalogueEntry("way", f"{words}, in every layout", subject, runs=SAVE_AND_LOAD_RUNS)
        if claim.pan_private:
            memory = PanPrivateSubject(claim, run, requested_ticks=ticks)
            yield CatalogueEntry("memory", f"{title}, pan-private", memory)
            continue
        if claim.loss.currency == "approximate":
            subject = MechanismSubject(claim, ticks, max_run_ticks=run, stated=claim.loss)
            yield CatalogueEntry("counter", f"{title}, as stated", subject)
        yield CatalogueEntry("counter", title, MechanismSubject(claim, ticks, max_run_ticks=run))
        if cls.__name__ in ADVERSARY_MECHANISMS and claim.unit == Event():
            yield CatalogueEntry("adversary", f"{title}, adaptively", AdversarySubject(claim, run))


def _list_adaptive(cls: type[AdaptiveMechanism[Any]], request: AuditRequest) -> Iterator[CatalogueEntry]:
    """List subjects in one unit, and against an adaptive adversary if the unit is one event.

    They are with the memory, if the unit is one event or the memory is always public.
    """
    wanted = request.ticks or ADAPTIVE_TICKS
    ticks = min(wanted, MEASURED_TICKS)
    claims = list(_build_claims(cls, wanted, request))
    plain = [known for known in claims if not known[0].pan_private] if request.unit is not None else []
    for claim, called in plain or claims:
        words = [called, "pan-private"] if claim.pan_private else [called]
        words += [] if request.unit is None else [describe_unit(request.unit)]
        words += [f"{describe_coverage(ticks, wanted)} run"] if ticks < wanted else []
        subject = AdaptiveMechanismSubject(claim, ticks, peek=ticks // 2 if claim.pan_private else None)
        runs = ADAPTIVE_RUNS if cls.HAS_JOINT_GROUPS else None
        yield CatalogueEntry("adapting", ", ".join(words), subject, runs=runs)
    for called, claim in {called: claim for claim, called in reversed(claims)}.items() if request.unit is None else ():
        if not isinstance(claim, PegasusHierarchy):  # which is attacked level by level, as `Pegasus`
            runs = JOINT_ADVERSARY_RUNS if claim.HAS_JOINT_GROUPS else ADVERSARY_RUNS
            yield CatalogueEntry("adversary", f"{called}, adaptively", AdversarySubject(claim, ticks), runs=runs)


def _list_other_claims(cls: type[LinearMechanism[Any]]) -> Iterator[CatalogueEntry]:
    """List claims in other units, and some in (epsilon, delta) as stated."""
    for unit in UNITS:
        claims = list(_build_claims(cls, COUNTER_TICKS, AuditRequest(unit=unit)))
        plain = [known for known in claims if not known[0].pan_private]
        for claim, title in plain or claims:
            subject = (MechanismSubject if plain else PanPrivateSubject)(claim, COUNTER_TICKS)
            yield CatalogueEntry("unit", f"{title}, {describe_unit(unit)}", subject)
    if cls.__name__ in APPROX_MECHANISMS:
        claim, title = next(_build_claims(cls, COUNTER_TICKS, AuditRequest(losses=(APPROX_LOSS,))))
        yield CatalogueEntry(
            "counter", f"{title}, as stated", MechanismSubject(claim, COUNTER_TICKS, stated=claim.loss)
        )


def describe_unit(unit: Unit) -> str:
    """
    >>> describe_unit(WEvent(3)), describe_unit(User(1, 2))
    ('windows of 3', 'users of 2')
    """
    return f"{'windows' if unit.consecutive else 'users'} of {unit.ticks}"


def _build_claims(cls: type[C], ticks: int, request: AuditRequest) -> Iterator[tuple[C, str]]:
    known = {field.name for field in fields(cls)}  # type: ignore[arg-type]
    for settings in list_settings(cls, MECHANISM_SETTINGS, {"loss", "horizon"}):
        unit = {} if request.unit is None else {"unit": request.unit, "bound": request.unit.events}
        ends: Settings = {name: ticks for name in ("horizon", "last_tick") if name in known}
        for loss in request.losses:
            ways: list[Settings] = [{}, {"pan_private": True}] if "pan_private" in known else [{}]
            claims = [build_claim(cls, loss, {**ends, **settings, **unit, **way}) for way in ways]
            for claim in dict.fromkeys(claim for claim in claims if claim is not None):
                yield claim, format_title(cls.__name__, settings)


def _list_statistics(cls: type[Statistic[Any]], request: AuditRequest) -> Iterator[CatalogueEntry]:
    wanted = request.ticks or STATISTIC_TICKS
    ticks = min(wanted, MEASURED_TICKS)
    unit = {} if request.unit is None else {"unit": request.unit}
    if cls.__name__ not in STATISTIC_CASES:
        raise TypeError(f"settings of {cls.__name__} must be in the catalogue, got none")
    for kind in STATISTIC_CASES[cls.__name__]:
        for loss in request.losses:
            claim = build_claim(cls, loss, {"horizon": ticks, **kind.settings, **unit})
            if claim is None or isinstance(loss, IntegerZcdp):  # counters are attacked at integer orders alone
                continue
            title = format_title(
                cls.__name__, {name: kind.settings[name] for name in TITLE_SETTINGS if name in kind.settings}
            )
            title += f", {describe_coverage(ticks, wanted)}" if ticks < wanted else ""
            rest = (ticks, kind.event_values)
            yield CatalogueEntry("vectors", title, StatisticSubject(claim, *rest, 2, kind.to_columns))
            if not isinstance(claim.unit, User):
                whole = PublishedSubject(claim, *rest, kind.to_columns)
                yield CatalogueEntry("published", f"{title}, published", whole)
    if cls is TopK and request.unit is None:
        found = TopK(Approx(1, Fraction(1, 100)), k=1, horizon=ticks)
        yield CatalogueEntry("published", "TopK, keys discovered", PublishedSubject(found, ticks, ("a", "b")))


def _list_user_tables(cls: type[Any], request: AuditRequest) -> Iterator[CatalogueEntry]:
    """List all tables to be computed, and the first also for experiments."""
    for loss in request.losses:
        if isinstance(loss, Pure):
            for place, (subject, settings) in enumerate(build_user_table_subjects(cls, loss)):
                runs = 0 if place else USER_TABLE_RUNS
                yield CatalogueEntry("seized", format_title(cls.__name__, settings), subject, runs=runs)


def _list_local(name: str | None, request: AuditRequest) -> Iterator[CatalogueEntry]:
    """List reports, computed and by experiment, and devices with repeated reports, computed."""
    for loss in request.losses:
        if not isinstance(loss, Pure):
            continue
        for called, oracle in find_oracles().items():
            for subject, settings in build_local_subjects(oracle, loss) if name in (None, called) else ():
                yield CatalogueEntry("local", format_title(called, settings), subject, runs=LOCAL_RUNS)
        for device, title in build_device_subjects(loss) if name in (None, DEVICE_NAME) else ():
            yield CatalogueEntry("local", title, device, runs=0)


def _list_sketches(cls: type[Any], request: AuditRequest) -> Iterator[CatalogueEntry]:
    """List all settings to be computed, and those of one tick also for experiments."""
    for loss in dict.fromkeys((*request.losses, MISRA_GRIES_LOSS)):
        for build, settings in build_sketch_subjects(cls):
            claim = build_claim(cls, loss, settings) if is_sketch_loss(cls, loss) else None
            if claim is not None:
                is_small = settings.get("horizon", 1) == settings.get("releases", 1) == 1
                runs = SKETCH_RUNS if is_small else 0
                yield CatalogueEntry("sketch", format_title(cls.__name__, settings), build(claim), runs=runs)


def is_sketch_loss(cls: type[Any], loss: Loss) -> bool:
    """Return whether a sketch has its own law under a loss; approximate ones of counters are tried elsewhere."""
    return isinstance(loss, Approx) == (cls.__name__ == "MisraGries")


def build_claim(cls: Any, loss: Loss, settings: Settings) -> Any:
    """Build a claim, or None if the package refuses it in its own words."""
    try:
        return cls(loss, **settings)
    except ValueError as refusal:
        if any(words in str(refusal) for words in REFUSAL_PREFIXES):
            return None
        raise


def format_title(name: str, settings: Settings) -> str:
    """
    >>> format_title("Hybrid", {"inner": Binary, "growth": 2})
    'Hybrid(inner=Binary, growth=2)'
    """
    shown = [f"{key}={getattr(value, '__name__', value)}" for key, value in settings.items()]
    return f"{name}({', '.join(shown)})" if shown else name
