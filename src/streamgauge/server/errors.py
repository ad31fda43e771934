"""What is refused over HTTP: always `{"error": {"code", "message"}}`, with the status that fits.

**Privacy.** A refusal's words are written from settings, from public acts or from the request itself. The
words of any other exception may carry data: the reply says that it is a bug, and the curator's log gets the
name of its class, nothing else.
"""

from asyncio import CancelledError
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BUG = "this is a bug; the curator's log has its name"
STOPPED = "requests must be answered before the server stops, got one that was not: ask again"
CODES = {404: "not_found", 405: "method_not_allowed"}

Log = Callable[[str], None]  # a line for the curator


class HttpRefusal(Exception):  # noqa: N818 - refusals are named by what they say
    """A request that is answered by an error; `more` goes beside code and message."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        headers: Mapping[str, str] | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.headers, self.more = headers, more or {}

    def reply(self) -> Response:
        told = {"code": self.code, "message": self.message, **self.more}
        return JSONResponse({"error": told}, self.status, headers=self.headers)


class ReplyBroken(Exception):  # noqa: N818 - the same
    """A reply that had begun when something went wrong: the connection is closed."""


def later(code: str, message: str, *, status: int = 503, seconds: int = 1) -> HttpRefusal:
    """A refusal that may be asked again."""
    return HttpRefusal(status, code, message, {"Retry-After": str(seconds)})


@contextmanager
def nothing_taken() -> Iterator[None]:
    """Around all that is done with what was sent before any of it is taken: refusals say that none was."""
    try:
        yield
    except HttpRefusal as refusal:
        refusal.more = {**refusal.more, "taken": False}
        raise


async def http_error(request: Request, error: Exception) -> Response:
    """Starlette's own refusals (no such path, no such method) in our form."""
    if not isinstance(error, HTTPException):
        raise error
    phrase = HTTPStatus(error.status_code).phrase.lower()
    code = CODES.get(error.status_code, phrase.replace(" ", "_"))
    return HttpRefusal(error.status_code, code, phrase, error.headers).reply()


class Guard:
    """Around everything that answers: no exception leaves it with its text.

    Requests are cancelled when the server stops, and by nobody else.
    """

    def __init__(self, app: ASGIApp, log: Log) -> None:
        self.app, self.log = app, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def sending(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self.app(scope, receive, sending)
        except ClientDisconnect:
            return
        except CancelledError:
            if begun:
                raise
            await later("not_running", STOPPED).reply()(scope, receive, send)
        except Exception as error:
            reply = self._reply(error)
            if begun:
                raise ReplyBroken from None
            await reply(scope, receive, send)

    def _reply(self, error: Exception) -> Response:
        if isinstance(error, HttpRefusal):
            return error.reply()
        self.log(f"a request failed: {type(error).__name__}")
        return HttpRefusal(500, "bug", BUG).reply()
