"""The page's files: found by name, revalidated by tag, compressed once, and nothing else."""

import asyncio
import re

import httpx
import pytest
from starlette.applications import Starlette

from streamgauge.server.routes.static import load_page_files, routes


class Client:
    """A client of the application without a network."""

    def __init__(self):
        self.transport = httpx.ASGITransport(Starlette(routes=routes()))

    def get(self, path, **how):
        async def requested():
            async with httpx.AsyncClient(transport=self.transport, base_url="http://test") as client:
                return await client.get(path, **how)

        return asyncio.run(requested())


@pytest.fixture(scope="module")
def client():
    return Client()


def test_page_has_no_inline_script_and_no_foreign_url(client):
    page = client.get("/").text
    assert re.findall(r"<script(?![^>]*\ssrc=)", page) == []
    assert re.findall(r"\son[a-z]+=", page) == []
    for name, file in load_page_files().items():
        assert not re.search(
            r"(https?:)?//(?!www\.w3\.org)[a-z]", re.sub(r"^\s*//.*$", "", file.body.decode(), flags=re.M)
        ), name


def test_script_is_immutable_under_its_digest_and_revalidated_elsewhere(client):
    source = re.search(r'src="(/plotly\.min\.js\?v=[0-9a-f]{16})"', client.get("/").text)[1]
    stored = client.get(source)
    assert stored.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert stored.headers["content-encoding"] == "gzip"
    assert b"plotly.js" in stored.content[:100]
    again = client.get("/plotly.min.js", headers={"If-None-Match": stored.headers["etag"]})
    assert (again.status_code, again.content, again.headers["cache-control"]) == (304, b"", "no-cache")


def test_client_without_gzip_gets_same_bytes_and_other_etag(client):
    packed = client.get("/page/main.js")
    plain = client.get("/page/main.js", headers={"Accept-Encoding": "identity"})
    assert plain.content == packed.content
    assert "content-encoding" not in plain.headers
    assert plain.headers["etag"] != packed.headers["etag"]


@pytest.mark.parametrize("path", ["../page_files.py", "%2e%2e/app.py", "..%2fapp.py", "index.html/..", "", "none.js"])
def test_path_outside_the_page_files_gets_404(client, path):
    assert client.get(f"/page/{path}").status_code == 404
