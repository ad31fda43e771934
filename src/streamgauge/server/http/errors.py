"""Error replies: always `{"error": {"code", "message"}}`, with a fitting status.

**Privacy.** The text of a refusal comes from settings, public ledger entries or the request itself. The text of
any other exception may contain data. Its reply says that it is a bug, and the curator's log gets the name of
its class, nothing else.
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

BUG_MESSAGE = "this is a bug; the curator's log has the class of the exception"
STOPPED_MESSAGE = "the server is stopping: send the request again"
STATUS_CODES = {404: "not_found", 405: "method_not_allowed"}

Log = Callable[[str], None]  # a line for the curator


class HttpError(Exception):
    """A request that is answered by an error. `extra` adds keys to code and message."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.headers, self.extra = headers, extra or {}

    def to_response(self) -> Response:
        content = {"code": self.code, "message": self.message, **self.extra}
        return JSONResponse({"error": content}, self.status, headers=self.headers)


def build_retry_error(code: str, message: str, *, status: int = 503, seconds: int = 1) -> HttpError:
    """Return an error after which the client may retry."""
    return HttpError(status, code, message, {"Retry-After": str(seconds)})


@contextmanager
def mark_not_accepted() -> Iterator[None]:
    """Mark refusals with `"accepted": false` while nothing of the body is accepted."""
    try:
        yield
    except HttpError as refusal:
        refusal.extra = {**refusal.extra, "accepted": False}
        raise


async def render_starlette_error(request: Request, error: Exception) -> Response:
    """Render Starlette's own errors (unknown path, unknown method) in our form."""
    if not isinstance(error, HTTPException):
        raise error
    phrase = HTTPStatus(error.status_code).phrase.lower()
    code = STATUS_CODES.get(error.status_code, phrase.replace(" ", "_"))
    return HttpError(error.status_code, code, phrase, error.headers).to_response()


class ErrorMiddleware:
    """Error boundary: no exception passes it with its text.

    Requests are cancelled only when the server stops.
    """

    def __init__(self, app: ASGIApp, log: Log) -> None:
        self.app, self.log = app, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def send_wrapper(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self.app(scope, receive, send_wrapper)
        except ClientDisconnect:
            return
        except CancelledError:
            if begun:
                raise
            await build_retry_error("not_running", STOPPED_MESSAGE).to_response()(scope, receive, send)
        except Exception as error:
            reply = self._build_reply(error)
            if begun:
                raise ConnectionAbortedError from None  # closes the connection
            await reply(scope, receive, send)

    def _build_reply(self, error: Exception) -> Response:
        if isinstance(error, HttpError):
            return error.to_response()
        self.log(f"a request failed: {type(error).__name__}")
        return HttpError(500, "internal_error", BUG_MESSAGE).to_response()
