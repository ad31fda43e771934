"""The page's own files, and the script that draws its charts: all that a browser asks for comes from here.

    /                   the page; it names the script with a digest of its bytes
    /page/{file}        style, modules, icon: as small as they are written, asked for again by ETag
    /plotly.min.js      from the plotly package, packed once; with its digest as ?v= it is kept for ever

Promise
    Files are known by name before the first request: no path is ever made of what was asked for. What is sent
    is the same for everybody.
"""

import gzip
from dataclasses import dataclass
from functools import cached_property, partial
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from streamgauge.query.packages import needs

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
FOR_EVER = "public, max-age=31536000, immutable"
SCRIPT = "/plotly.min.js"
LEVEL = 6  # of gzip: the script is packed once in a server's life


@dataclass(frozen=True, eq=False)
class PageFile:
    """Bytes that a browser may ask for."""

    body: bytes
    media_type: str

    @cached_property
    def digest(self) -> str:
        return sha256(self.body).hexdigest()[:16]

    @cached_property
    def packed(self) -> bytes:
        return gzip.compress(self.body, LEVEL, mtime=0)


def routes() -> list[Route]:
    """What `app_of` includes."""
    script, page = drawing_script(), page_files()
    index = page.pop("index.html")
    named = index.body.replace(SCRIPT.encode(), f"{SCRIPT}?v={script.digest}".encode())
    return [
        Route("/", partial(send, PageFile(named, index.media_type)), name="page"),
        *(Route(f"/page/{name}", partial(send, file), name=name) for name, file in page.items()),
        Route(SCRIPT, partial(send, script), name="plotly"),
    ]


def page_files(package: str = "streamgauge.server", folder: str = "page") -> dict[str, PageFile]:
    """By name."""
    found = (entry for entry in files(package).joinpath(folder).iterdir())
    return {
        entry.name: PageFile(entry.read_bytes(), TYPES[Path(entry.name).suffix])
        for entry in found
        if Path(entry.name).suffix in TYPES
    }


def drawing_script() -> PageFile:
    with needs("plotly", "streamgauge[server]"):
        package = files("plotly")
    return PageFile(package.joinpath("package_data", "plotly.min.js").read_bytes(), TYPES[".js"])


async def send(file: PageFile, request: Request) -> Response:
    """The file; packed where that is taken; nothing but its tag where the browser has it already."""
    takes_gzip = "gzip" in request.headers.get("accept-encoding", "")
    tag = f'"{file.digest}{"-gz" if takes_gzip else ""}"'
    kept = request.query_params.get("v") == file.digest
    headers = {"ETag": tag, "Cache-Control": FOR_EVER if kept else "no-cache", "Vary": "Accept-Encoding"}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if not takes_gzip:
        return Response(file.body, media_type=file.media_type, headers=headers)
    packed = await run_in_threadpool(lambda: file.packed)
    return Response(packed, media_type=file.media_type, headers={**headers, "Content-Encoding": "gzip"})
