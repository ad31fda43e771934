"""The ledger, a page at a time: charges and acts are as many as were ever asked for.

GET /api/ledger         what is left, and charges          after, limit    so many after that many
GET /api/ledger/acts    what was done, word for word       next            where it goes on
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from starlette.datastructures import QueryParams

from streamgauge.pipeline.reader import Act
from streamgauge.server.asked_range import unfit

CHARGES, ACTS = 1000, 100  # of a page, at most
BYTES = 2**20  # of the acts of a page, or one that is longer
LARGEST = 18  # digits

Item = TypeVar("Item")


def ledger_page(told: Mapping[str, Any], asked: QueryParams) -> dict[str, Any]:
    """What is told of a book, with the charges that are asked for and without the acts."""
    after, limit = span_of(asked, CHARGES)
    charges = told["charges"][after : after + limit]
    names = {charge["release"] for charge in charges}
    owners = {name: by for name, by in told["asked"].items() if name in names}
    rest = {key: value for key, value in told.items() if key != "acts"}
    return {**rest, "charges": charges, "asked": owners, "next": further("", told["charges"], after, limit)}


def acts_page(acts: Sequence[Act], told: Sequence[Mapping[str, Any]], asked: QueryParams) -> dict[str, Any]:
    """The acts that are asked for, as they are told."""
    after, limit = span_of(asked, ACTS)
    count = fitting(acts[after : after + limit])
    return {"acts": told[after : after + count], "next": further("/acts", acts, after, count)}


def fitting(acts: Sequence[Act]) -> int:
    """How many of them are on one page."""
    size = 0
    for count, act in enumerate(acts):
        size += len(act.text())
        if count and size > BYTES:
            return count
    return len(acts)


def further(road: str, items: Sequence[Item], after: int, count: int) -> str | None:
    """Where the rest is, if there is some."""
    end = after + count
    return f"/api/ledger{road}?after={end}&limit={count}" if end < len(items) else None


def span_of(asked: QueryParams, most: int) -> tuple[int, int]:
    """How many are left out, and how many are told."""
    after = number("after", asked.get("after", "0"))
    limit = number("limit", asked.get("limit", str(most)))
    if not 1 <= limit <= most:
        raise unfit("limit", f"from 1 to {most}", str(limit))
    return after, limit


def number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= LARGEST):
        raise unfit(name, "a whole number", text)
    return int(text)
