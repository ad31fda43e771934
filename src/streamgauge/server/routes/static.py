"""Files of the page, and the script of its charts: a browser loads everything from here.

    /                   the page; it names the script with a digest of its bytes
    /page/{file}        style, modules, icon; revalidated by ETag
    /plotly.min.js      from the plotly package, compressed once; immutable with its digest as ?v=

**Promise.** All files are known by name before the first request, so no path is built from a request. Replies
are the same for every client.
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

from streamgauge.optional import require_package

FILE_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
IMMUTABLE_CACHE = "public, max-age=31536000, immutable"
SCRIPT_PATH = "/plotly.min.js"
GZIP_LEVEL = 6  # of gzip: the script is packed once in a server's life


@dataclass(frozen=True, eq=False)
class PageFile:
    """A file of the page."""

    body: bytes
    media_type: str

    @cached_property
    def digest(self) -> str:
        return sha256(self.body).hexdigest()[:16]

    @cached_property
    def compressed(self) -> bytes:
        return gzip.compress(self.body, GZIP_LEVEL, mtime=0)


def routes() -> list[Route]:
    """Return the routes of the page."""
    script, page = load_plot_script(), load_page_files()
    index = page.pop("index.html")
    named = index.body.replace(SCRIPT_PATH.encode(), f"{SCRIPT_PATH}?v={script.digest}".encode())
    return [
        Route("/", partial(build_file_response, PageFile(named, index.media_type)), name="page"),
        *(Route(f"/page/{name}", partial(build_file_response, file), name=name) for name, file in page.items()),
        Route(SCRIPT_PATH, partial(build_file_response, script), name="plotly"),
    ]


def load_page_files(package: str = "streamgauge.server", folder: str = "page") -> dict[str, PageFile]:
    """Return the files of the page by name."""
    found = (entry for entry in files(package).joinpath(folder).iterdir())
    return {
        entry.name: PageFile(entry.read_bytes(), FILE_TYPES[Path(entry.name).suffix])
        for entry in found
        if Path(entry.name).suffix in FILE_TYPES
    }


def load_plot_script() -> PageFile:
    with require_package("plotly", "streamgauge[server]"):
        package = files("plotly")
    return PageFile(package.joinpath("package_data", "plotly.min.js").read_bytes(), FILE_TYPES[".js"])


async def build_file_response(file: PageFile, request: Request) -> Response:
    """Return the file, compressed if the client accepts that; 304 if the browser has it."""
    takes_gzip = "gzip" in request.headers.get("accept-encoding", "")
    tag = f'"{file.digest}{"-gz" if takes_gzip else ""}"'
    is_immutable = request.query_params.get("v") == file.digest
    headers = {"ETag": tag, "Cache-Control": IMMUTABLE_CACHE if is_immutable else "no-cache", "Vary": "Accept-Encoding"}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if not takes_gzip:
        return Response(file.body, media_type=file.media_type, headers=headers)
    packed = await run_in_threadpool(lambda: file.compressed)
    return Response(packed, media_type=file.media_type, headers={**headers, "Content-Encoding": "gzip"})
