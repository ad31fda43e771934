"""What caches may keep: releases never change, so an answer is known by what it was asked of.

    closed range    kept for ever: all its ticks have left, and they have one value
    all others      asked for again, and answered "not modified" while nothing has left since

Promise
    Two answers with the same tag have the same bytes. Proof: a tag is a hash of the version of this package,
    of all that was asked, and of the chain of the last entry that is told of, which is a hash of every entry
    before it.
"""

import json
from hashlib import sha256
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from streamgauge import __version__
from streamgauge.query.settings import ServerSettings

YEAR = 31_536_000  # seconds


def etag_of(*asked: Any) -> str:
    """A strong tag.

    >>> etag_of("fever", 1) == etag_of("fever", 1) != etag_of("fever", 2)
    True
    """
    told = json.dumps([__version__, *asked], ensure_ascii=True)
    return f'"{sha256(told.encode()).hexdigest()[:32]}"'


def is_known(request: Request, etag: str) -> bool:
    """Whether who asks has it already."""
    told = [part.strip().removeprefix("W/") for part in request.headers.get("if-none-match", "").split(",")]
    return etag in told or told == ["*"]


def caching(settings: ServerSettings, *, closed: bool) -> str:
    """Caches that others share may keep what anybody may read."""
    who = "public" if settings.anonymous else "private"
    return f"{who}, max-age={YEAR}, immutable" if closed else f"{who}, no-cache"


def not_modified(headers: dict[str, str]) -> Response:
    return Response(status_code=304, headers=headers)
