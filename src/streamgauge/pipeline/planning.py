"""The plan of a pipeline: what each release will cost and how wrong it will be, and what an edit changes.

Reads the file, the headers or schemas of its source, which are public, and, if there is one, the public side
of the store. Reads no record, needs no key, spends nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import islice
from math import isfinite
from typing import Any

from streamgauge.continual import compare
from streamgauge.continual.choice import Candidate
from streamgauge.pipeline.as_charged import planned_as_charged
from streamgauge.pipeline.asked_releases import with_asked
from streamgauge.pipeline.book import Book, collected_in
from streamgauge.pipeline.edits import Edits, edits
from streamgauge.pipeline.gaussian_hints import gaussian_hints
from streamgauge.pipeline.intrusions import Intrusions, growth_lines
from streamgauge.pipeline.publishing import outline_shapes
from streamgauge.pipeline.reader import Act
from streamgauge.pipeline.reading import read_acts, read_last_released, read_opened, read_tick
from streamgauge.pipeline.room import needed_bytes, no_memory
from streamgauge.pipeline.running_on import last_of
from streamgauge.pipeline.words import exceeded_text
from streamgauge.privacy import BudgetExceeded, Loss, Remainder
from streamgauge.query.few_events import expected_at, reason
from streamgauge.query.formats import SENT, STANDARD
from streamgauge.query.hints import depends_of, hints_of, lost_of
from streamgauge.query.mechanism_names import AUTO
from streamgauge.query.parts import Part
from streamgauge.query.planner import Planned
from streamgauge.query.predicted import Error, crowded_of, errors
from streamgauge.query.promises import describe_contributions
from streamgauge.query.settings import PipelineFile
from streamgauge.query.source_schema import find_refusals
from streamgauge.sinks import LineFile, SinkColumnsError, open_sink
from streamgauge.sources import SourceError, open_finished, open_live
from streamgauge.statistics import Count

RUNNERS_UP = 3
MAX_FILES = 100  # of a source, whose headers a plan reads
TELLING = (
    *(
        "branching",
        "refine",
        "window",
        "half_life",
        "exponent",
        "buffers",
        "inner",
        "split",
        "theta",
        "smoother",
        "prune",
    ),
    *("threshold", "segments", "ratio"),
)


@dataclass(frozen=True)
class Choice:
    """The mechanism of one part, and those that came next."""

    measures: tuple[str, ...]
    level: int
    loss: Loss
    mechanism: str
    runners_up: tuple[tuple[str, float], ...]  # names, and mean errors as multiples of this one's
    depends: str = ""  # what its error depends on, if on data
    reason: str = ""  # why it was chosen, if for what is expected of the data
    hints: tuple[str, ...] = ()  # what to know of a mechanism whose error depends on data


@dataclass(frozen=True)
class PlannedRelease:
    """What one release will cost, and how wrong it will be."""

    name: str
    sql: str
    window: str
    loss: Loss
    first: int
    last: int | None
    groups: int
    columns: tuple[str, ...]  # that it is grouped by
    choices: tuple[Choice, ...]
    errors: tuple[Error, ...]
    delta: Fraction | None = None  # of groups that are discovered
    asked: str | None = None  # who asked for it, if it is in no file
    alerts: tuple[str, ...] = ()  # what each of its alerts means
    column: str | None = None  # of reports, whose loss is this one's
    contributions: str = ""  # which events of a user count, if others are dropped

    @property
    def discovered(self) -> bool:
        return self.delta is not None


@dataclass(frozen=True)
class Plan:
    """The plan of a file; print it, or take it as JSON."""

    file: PipelineFile
    releases: tuple[PlannedRelease, ...]
    refused: tuple[str, ...]
    edits: Edits
    spent: tuple[Loss | None, Loss | None]  # before and after
    left: tuple[Loss | Remainder | None, Loss | Remainder | None]
    notes: tuple[str, ...] = field(default=())
    keeps: int = 0  # bytes of all releases, whatever comes
    intrusions: Intrusions | None = None  # announced ones, where they can be survived
    growth: tuple[str, ...] = ()  # what they do to errors
    collected: frozenset[str] = frozenset()  # releases of reports, ended ones too

    def as_json(self) -> dict[str, Any]:
        """Everything, ready for `json.dumps`."""
        from streamgauge.pipeline.plan_json import plan_as_json

        return plan_as_json(self)

    def __str__(self) -> str:
        from streamgauge.pipeline.plan_text import plan_as_text

        return plan_as_text(self)

    def _repr_html_(self) -> str:
        from streamgauge.pipeline.plan_text import plan_as_html

        return plan_as_html(self)


def plan_of(file: PipelineFile) -> Plan:
    """Plans all releases of a file, and those that were asked for; what is refused is told, not raised."""
    acts = read_acts(file.folder)
    book = Book.read(acts, file.stream.unit)
    file = with_asked(file, book)
    plans, refused = _planned(file, book)
    refused = refused or _check_sinks(file, acts)
    changed = edits(file, plans, book)
    before = _state(book)
    first = first_tick(file)
    refused += _charged(file, plans, book, changed, first)
    after = _state(book)
    hints = gaussian_hints([plan for plan in plans if plan.name in changed.new], book)
    told = tuple(told_of(plan, book, first, hints.get(plan.name, "")) for plan in plans)
    notes = tuple(f"confirm {key}" for key in file.unconfirmed)
    if changed.new and (refusal := no_memory(plans)):
        refused.append(f"{file.path.name}: {refusal}")
    if changed.new:
        lacking, missing = _source(file)
        refused += lacking
        notes += missing
    return Plan(
        file,
        told,
        (*refused, *changed.refused),
        changed,
        (before[0], after[0]),
        (before[1], after[1]),
        notes,
        needed_bytes(plans),
        Intrusions.of(book, file.stream, read_tick(file.folder)) if file.stream.pan_private else None,
        tuple(growth_lines(plans)),
        frozenset(name for name, entry in book.entries.items() if entry.column is not None),
    )


def _source(file: PipelineFile) -> tuple[list[str], tuple[str, ...]]:
    """Return refusals by headers and schemas of the source, and a note if it cannot be read now."""
    stream, base = file.stream, file.path.parent
    if stream.source in (STANDARD, *SENT):
        return [], ()
    try:
        source = open_finished(stream, base) if stream.arrival == "finished" else open_live(stream, base)
        refusals = find_refusals(stream, islice(source.schemas(), MAX_FILES))
    except SourceError as refusal:
        return [], (str(refusal),)
    return [f"{file.path.name}: {refusal}" for refusal in refusals], ()


def _planned(file: PipelineFile, book: Book) -> tuple[list[Planned], list[str]]:
    plans, refused = [], []
    for release in file.releases:
        try:
            plans.append(planned_as_charged(file, release, book))
        except ValueError as refusal:
            refused.append(str(refusal))
    return plans, refused


def _check_sinks(file: PipelineFile, acts: Sequence[Act]) -> list[str]:
    """Return the refusals of CSV sinks whose columns do not go together, or are not those in the file."""
    refused = []
    for sink in (each for each in file.sinks if each.format == "csv"):
        try:
            opened = open_sink(sink, file.path.parent, shapes=outline_shapes(file, acts, sink))
            if isinstance(opened, LineFile):
                opened.check_columns()
        except SinkColumnsError as refusal:
            refused.append(f"{file.path.name}: {refusal}")
    return refused


def _state(book: Book) -> tuple[Loss | None, Loss | Remainder | None]:
    return (None, None) if book.ledger is None else (book.ledger.spent(), book.ledger.remainder())


def first_tick(file: PipelineFile) -> int:
    """Where new releases would start."""
    return 1 if file.stream.arrival == "finished" else read_opened(file.folder) + 1


def _charged(
    file: PipelineFile, plans: Sequence[Planned], book: Book, changed: Edits, first: int
) -> list[str]:
    """Does to the copy of the book that the plan has what a run would do; tells what it would not."""
    refused = []

    def refuse(what: str, refusal: ValueError) -> None:
        told = exceeded_text(refusal) if isinstance(refusal, BudgetExceeded) else str(refusal)
        refused.append(f"{file.path.name}: {what}: {told}")

    try:
        if book.ledger is None or changed.budget:
            book.budget(file.stream.budget)
    except ValueError as refusal:
        refuse("stream.budget", refusal)
    ended = {name: read_last_released(file.folder, name) for name in changed.ended}
    for name in sorted(ended, key=ended.__getitem__):  # a live one runs on by the clock of the start
        last = last_of(file.stream, book.entries[name], file.stream.start, ended[name], first - 1)
        book.end(name, max(ended[name], last))
    try:
        if book.ledger is not None:
            book.charge_columns(file.stream.reports)
    except ValueError as refusal:
        refuse(collected_in("stream.columns", file.stream.budget), refusal)
    for plan in plans:
        if plan.name in changed.new and book.ledger is not None and is_charged(plan, book):
            try:
                book.charge(plan.name, plan, first)
            except ValueError as refusal:
                refuse(f"release {plan.name}", refusal)
    return refused


def is_charged(plan: Planned, book: Book) -> bool:
    """Whether it has a charge of its own, or the column that it is read off has."""
    return plan.query.report is None or plan.query.report.column in book.columns


def told_of(plan: Planned, book: Book, first: int, hint: str = "") -> PlannedRelease:
    """What is told of a planned release, which begins at `first` unless it was charged."""
    entry = book.latest().get(plan.name)
    begin, found = first if entry is None else entry.first, tuple(errors(plan))
    choices = tuple(_choice(plan, part, found) for part in plan.parts)
    if hint:
        choices = (replace(choices[0], hints=(*choices[0].hints, hint)), *choices[1:])
    return PlannedRelease(
        plan.name,
        plan.query.text,
        plan.release.window,
        plan.release.loss,
        begin,
        plan.last_tick(begin),
        plan.groups,
        plan.columns,
        choices,
        found,
        plan.release.delta,
        plan.release.asked,
        _alerts(plan),
        None if plan.query.report is None else plan.query.report.column,
        describe_contributions(plan.stream),
    )


def _alerts(plan: Planned) -> tuple[str, ...]:
    names = [aggregate.name for aggregate in plan.query.aggregates]
    return tuple(alert.said(names, plan.stream.tick, plan.release.window) for alert in plan.alerts)


def _choice(plan: Planned, part: Part, found: Sequence[Error]) -> Choice:
    statistic = part.statistic
    names = tuple(plan.query.aggregates[output.aggregate].name for output in part.outputs)
    others = () if statistic.depends else tuple(_runners_up(part))
    mechanism = described(statistic.counter)
    certain = any(isfinite(error.half_width) for error in found if error.measure in names)
    hints = (*lost_of(statistic, plan.query), *hints_of(statistic, certain=certain), *crowded_of(plan, part))
    told = (depends_of(statistic), _reason(plan, part), hints)
    return Choice(names, part.level, statistic.loss, mechanism, others[:RUNNERS_UP], *told)


def _reason(plan: Planned, part: Part) -> str:
    statistic, release = part.statistic, plan.release
    if release.mechanism != AUTO or not isinstance(statistic, Count) or not statistic.depends:
        return ""
    return reason(statistic, expected_at(release, plan.query, part.level))


def _runners_up(part: Part) -> Iterator[tuple[str, float]]:
    """Those that came next, where errors depend on no data and can be compared."""
    statistic = part.statistic
    found = compare(
        statistic.loss,
        horizon=statistic.horizon,
        window=statistic.window,
        bound=statistic.reach,
        unit=statistic.counted,
        pan_private=statistic.pan_private,
        open_ticks=statistic.open_ticks,
    )
    chosen = statistic.linear
    own = chosen.rmse(found.ticks)
    for each in found.candidates:
        if not each.refused and not is_like(each, chosen) and (part.measure.key is None or each.rmse >= own):
            yield each.name, float(each.rmse / own)


def is_like(candidate: Candidate, mechanism: Any) -> bool:
    return candidate.mechanism is not None and candidate.mechanism == mechanism


def described(mechanism: Any) -> str:
    """The name of a mechanism, with the settings that are its own."""
    own = {name: getattr(mechanism, name) for name in TELLING if getattr(mechanism, name, None)}
    settings = ", ".join(f"{name}={getattr(value, '__name__', value)}" for name, value in own.items())
    return f"{type(mechanism).__name__}({settings})" if settings else type(mechanism).__name__
