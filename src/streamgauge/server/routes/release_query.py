"""Queries of a release: the parameters of an address, and the validators of caches.

from, to    ticks, both included              last     number of newest ticks; excludes from and to
step        distance between ticks, counted from the first
group       column:label; several of a column are alternatives, several columns must all match
measure     names                             limit    rows of a page of JSON, at most MAX_PAGE_ROWS
shape       rows or columns for JSON; wide    format   json, csv or arrow; overrides Accept
            or long for CSV                   place    groups of the first tick to skip; used by pages of JSON

Releases never change, so a reply depends on its query. A closed range, all of whose ticks are published, may be
cached forever. All others are revalidated, and are "not modified" until the next publication.

**Promise.** Two replies with the same tag have the same bytes. Proof: a tag is a hash of the version of this
package, of the query, and of the chain of the last commit in the reply, which is a hash of all commits before
it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from urllib.parse import quote, urlencode

from starlette.datastructures import QueryParams
from starlette.requests import Request

from streamgauge import __version__
from streamgauge.config.settings import ServerSettings
from streamgauge.releases.schema import ReleaseSchema
from streamgauge.server.http.errors import HttpError

MAX_PAGE_ROWS = 10_000
MAX_INTEGER = 2**62
MAX_STEP_TICKS = 2**31
SINGLE_PARAMETERS = ("from", "to", "last", "step", "limit", "shape", "format", "place")
REPEATED_PARAMETERS = ("group", "measure")
FORMAT_SHAPES = {"json": ("rows", "columns"), "csv": ("wide", "long"), "arrow": ("wide",)}  # the default first
FORMATS = tuple(FORMAT_SHAPES)


def build_parameter_error(name: str, rule: str, got: str) -> HttpError:
    """Return the error of a parameter, with at most 40 characters of its value."""
    return HttpError(422, "bad_parameter", f"{name} must be {rule}, got {got[:40]!r}")


@dataclass(frozen=True)
class ReleaseQuery:
    """Requested ticks, groups, measures and format."""

    first: int | None = None
    last: int | None = None
    newest: int | None = None  # ticks
    step: int = 1
    limit: int = MAX_PAGE_ROWS
    shape: str | None = None
    format: str | None = None
    place: int = 0
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    measures: tuple[str, ...] = ()
    paging: str = ""  # the first parameter that only pages have, if one was given

    @classmethod
    def from_params(cls, params: QueryParams, shape: ReleaseSchema) -> "ReleaseQuery":
        """Return the query of valid parameters, checked against the declared release."""
        for name in params:
            if name not in (*SINGLE_PARAMETERS, *REPEATED_PARAMETERS):
                raise build_parameter_error(
                    "parameter", f"one of {', '.join((*SINGLE_PARAMETERS, *REPEATED_PARAMETERS))}", name
                )
        for name in SINGLE_PARAMETERS:
            if len(params.getlist(name)) > 1:
                raise build_parameter_error(name, "given once", f"{len(params.getlist(name))} times")
        made = cls(
            first=_parse_integer(params, "from", 1),
            last=_parse_integer(params, "to", 1),
            newest=_parse_integer(params, "last", 1),
            step=_parse_integer(params, "step", 1, MAX_STEP_TICKS) or 1,
            limit=_parse_integer(params, "limit", 1, MAX_PAGE_ROWS) or MAX_PAGE_ROWS,
            shape=parse_choice(params, "shape", ("rows", "columns", "wide", "long")),
            format=parse_choice(params, "format", FORMATS),
            place=_parse_integer(params, "place", 0) or 0,
            groups=_parse_groups(params.getlist("group"), shape),
            measures=_parse_measures(params.getlist("measure"), shape),
            paging=next((name for name in ("limit", "place") if name in params), ""),
        )
        made._check()
        return made

    def _check(self) -> None:
        if self.newest is not None and (self.first is not None or self.last is not None):
            raise build_parameter_error("last", "given without from and to", str(self.newest))
        if self.first is not None and self.last is not None and self.first > self.last:
            raise build_parameter_error("from", f"at most to, {self.last}", str(self.first))

    def choose_shape(self, form: str) -> str:
        """Return the shape of a reply in this format; refuse parameters that it does not have."""
        if self.shape is not None and self.shape not in FORMAT_SHAPES[form]:
            raise build_parameter_error("shape", f"{' or '.join(FORMAT_SHAPES[form])} for {form}", self.shape)
        if form != "json" and self.paging:
            rule = f"left out for {form}, which is sent whole: choose ticks with from, to and last"
            raise HttpError(422, "bad_parameter", f"{self.paging} must be {rule}")
        return self.shape or FORMAT_SHAPES[form][0]

    def clip(self, span: tuple[int, int]) -> tuple[int, int]:
        """Return the requested ticks inside the existing range."""
        if self.newest is not None:
            return max(span[0], span[1] - self.newest + 1), span[1]
        return max(span[0], self.first or 1), min(span[1], self.last or MAX_INTEGER)

    def build_href(self, release: str, first: int, last: int, place: int) -> str:
        """Return the address of another page of the query."""
        params: list[tuple[str, object]] = [("from", first), ("to", last)]
        params += [("step", self.step)] if self.step != 1 else []
        params += [("place", place)] if place else []
        params += [("limit", self.limit)] if self.limit != MAX_PAGE_ROWS else []
        params += [("shape", self.shape)] if self.shape not in (None, "rows") else []
        params += [("format", self.format)] if self.format else []
        params += [("group", f"{column}:{label}") for column, some in self.groups.items() for label in some]
        params += [("measure", measure) for measure in self.measures]
        return f"{build_release_path(release)}?{urlencode(params)}"


def build_release_path(release: str) -> str:
    """
    >>> build_release_path("fever@2")
    '/api/releases/fever%402'
    """
    return f"/api/releases/{quote(release, safe='')}"


def _parse_integer(params: QueryParams, name: str, least: int, most: int = MAX_INTEGER) -> int | None:
    text = params.get(name)
    if text is None:
        return None
    known = text.isascii() and text.isdigit() and len(text) < 19
    if not known or not least <= int(text) <= most:
        until = f"from {least} to {most}" if most < MAX_INTEGER else f"of at least {least}"
        raise build_parameter_error(name, f"a whole number {until}", text)
    return int(text)


def parse_choice(params: QueryParams, name: str, words: tuple[str, ...]) -> str | None:
    text = params.get(name)
    if text is not None and text not in words:
        raise build_parameter_error(name, f"one of {', '.join(words)}", text)
    return text


def _parse_groups(texts: list[str], shape: ReleaseSchema) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for group in texts:
        column = next((name for name in shape.columns if group.startswith(f"{name}:")), None)
        if column is None:
            columns = ", ".join(shape.columns)
            rule = f"column:label with a column of {columns}" if columns else "left out: there are no groups"
            raise build_parameter_error("group", rule, group)
        found[column] = (*found.get(column, ()), group.removeprefix(f"{column}:"))
    return found


def _parse_measures(names: list[str], shape: ReleaseSchema) -> tuple[str, ...]:
    for measure in names:
        if measure not in shape.measures:
            raise build_parameter_error("measure", f"one of {', '.join(shape.measures)}", measure)
    return tuple(names)


YEAR_SECONDS = 31_536_000  # seconds


def compute_etag(*parts: Any) -> str:
    """Return a strong tag.

    >>> compute_etag("fever", 1) == compute_etag("fever", 1) != compute_etag("fever", 2)
    True
    """
    content = json.dumps([__version__, *parts], ensure_ascii=True)
    return f'"{sha256(content.encode()).hexdigest()[:32]}"'


def is_cached(request: Request, etag: str) -> bool:
    """Return whether the client has the current version."""
    tags = [part.strip().removeprefix("W/") for part in request.headers.get("if-none-match", "").split(",")]
    return etag in tags or tags == ["*"]


def build_cache_control(settings: ServerSettings, *, closed: bool) -> str:
    """Return the cache header. Shared caches may store only replies to anonymous readers."""
    who = "public" if settings.anonymous else "private"
    return f"{who}, max-age={YEAR_SECONDS}, immutable" if closed else f"{who}, no-cache"
