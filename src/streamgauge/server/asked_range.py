"""What was asked for of a release, in the parameters of an address.

from, to    ticks, both included              last     so many ticks up to the newest; not with from or to
step        every so many of these, counted from the first
group       column:label; several of a column are any of them, of several columns all of them
measure     by name, several                  limit    rows of a page of JSON, at most MOST_ROWS
shape       rows or columns, of JSON; wide    format   json, csv or arrow, before what Accept says
            or long, of CSV                   place    how many places of the first tick are left out:
                                                       pages of JSON use it
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, urlencode

from starlette.datastructures import QueryParams

from streamgauge.query.shapes import Shape
from streamgauge.server.errors import HttpRefusal

MOST_ROWS = 10_000
LARGEST = 2**62
WIDEST_STEP = 2**31
SINGLE = ("from", "to", "last", "step", "limit", "shape", "format", "place")
SEVERAL = ("group", "measure")
SHAPES = {"json": ("rows", "columns"), "csv": ("wide", "long"), "arrow": ("wide",)}  # the default first
FORMATS = tuple(SHAPES)


def unfit(name: str, rule: str, got: str) -> HttpRefusal:
    """A parameter that breaks a rule; of what was got so much as fits in a line."""
    return HttpRefusal(422, "bad_parameter", f"{name} must be {rule}, got {got[:40]!r}")


@dataclass(frozen=True)
class AskedRange:
    """Ticks, places, measures and form."""

    first: int | None = None
    last: int | None = None
    newest: int | None = None  # ticks
    step: int = 1
    limit: int = MOST_ROWS
    shape: str | None = None
    format: str | None = None
    place: int = 0
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    measures: tuple[str, ...] = ()
    paging: str = ""  # the first parameter that only pages have, if one was given

    @classmethod
    def of(cls, asked: QueryParams, shape: Shape) -> "AskedRange":
        """Checks everything that was asked, against what is declared of the release."""
        for name in asked:
            if name not in (*SINGLE, *SEVERAL):
                raise unfit("parameter", f"one of {', '.join((*SINGLE, *SEVERAL))}", name)
        for name in SINGLE:
            if len(asked.getlist(name)) > 1:
                raise unfit(name, "given once", f"{len(asked.getlist(name))} times")
        made = cls(
            first=_whole(asked, "from", 1),
            last=_whole(asked, "to", 1),
            newest=_whole(asked, "last", 1),
            step=_whole(asked, "step", 1, WIDEST_STEP) or 1,
            limit=_whole(asked, "limit", 1, MOST_ROWS) or MOST_ROWS,
            shape=one_of(asked, "shape", ("rows", "columns", "wide", "long")),
            format=one_of(asked, "format", FORMATS),
            place=_whole(asked, "place", 0) or 0,
            groups=_groups(asked.getlist("group"), shape),
            measures=_measures(asked.getlist("measure"), shape),
            paging=next((name for name in ("limit", "place") if name in asked), ""),
        )
        made._check()
        return made

    def _check(self) -> None:
        if self.newest is not None and (self.first is not None or self.last is not None):
            raise unfit("last", "given without from and to", str(self.newest))
        if self.first is not None and self.last is not None and self.first > self.last:
            raise unfit("from", f"at most to, {self.last}", str(self.first))

    def choose_shape(self, form: str) -> str:
        """Return the shape of a reply in this format; refuse parameters that it does not have."""
        if self.shape is not None and self.shape not in SHAPES[form]:
            raise unfit("shape", f"{' or '.join(SHAPES[form])} for {form}", self.shape)
        if form != "json" and self.paging:
            rule = f"left out for {form}, which is sent whole: choose ticks with from, to and last"
            raise HttpRefusal(422, "bad_parameter", f"{self.paging} must be {rule}")
        return self.shape or SHAPES[form][0]

    def within(self, span: tuple[int, int]) -> tuple[int, int]:
        """The ticks that are meant, where these are the first and the last that there are."""
        if self.newest is not None:
            return max(span[0], span[1] - self.newest + 1), span[1]
        return max(span[0], self.first or 1), min(span[1], self.last or LARGEST)

    def href(self, release: str, first: int, last: int, place: int) -> str:
        """The address of another page of the same."""
        told: list[tuple[str, object]] = [("from", first), ("to", last)]
        told += [("step", self.step)] if self.step != 1 else []
        told += [("place", place)] if place else []
        told += [("limit", self.limit)] if self.limit != MOST_ROWS else []
        told += [("shape", self.shape)] if self.shape not in (None, "rows") else []
        told += [("format", self.format)] if self.format else []
        told += [("group", f"{column}:{label}") for column, some in self.groups.items() for label in some]
        told += [("measure", measure) for measure in self.measures]
        return f"{address_of(release)}?{urlencode(told)}"


def address_of(release: str) -> str:
    """
    >>> address_of("fever@2")
    '/api/releases/fever%402'
    """
    return f"/api/releases/{quote(release, safe='')}"


def _whole(asked: QueryParams, name: str, least: int, most: int = LARGEST) -> int | None:
    told = asked.get(name)
    if told is None:
        return None
    known = told.isascii() and told.isdigit() and len(told) < 19
    if not known or not least <= int(told) <= most:
        until = f"from {least} to {most}" if most < LARGEST else f"of at least {least}"
        raise unfit(name, f"a whole number {until}", told)
    return int(told)


def one_of(asked: QueryParams, name: str, words: tuple[str, ...]) -> str | None:
    told = asked.get(name)
    if told is not None and told not in words:
        raise unfit(name, f"one of {', '.join(words)}", told)
    return told


def _groups(told: list[str], shape: Shape) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for group in told:
        column = next((name for name in shape.columns if group.startswith(f"{name}:")), None)
        if column is None:
            columns = ", ".join(shape.columns)
            rule = f"column:label with a column of {columns}" if columns else "left out: there are no groups"
            raise unfit("group", rule, group)
        found[column] = (*found.get(column, ()), group.removeprefix(f"{column}:"))
    return found


def _measures(told: list[str], shape: Shape) -> tuple[str, ...]:
    for measure in told:
        if measure not in shape.measures:
            raise unfit("measure", f"one of {', '.join(shape.measures)}", measure)
    return tuple(told)
