"""client.js in real Chromium, on a site of its own that no network knows."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

from streamgauge.localdp import wire
from tests.support.page_servers import chromium
from tests.support.poll_memory import CLEAR, KEPT

SITE = "https://client.test/"
SOURCE = files("streamgauge.localdp").joinpath("client.js").read_text(encoding="utf-8")
CALL = """async ([body, given]) => {
  const client = await import('/client.js');
  const unhex = (text) => Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
  const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
  const refusal = (error) => (typeof error.code === 'string' ? error.code : error.constructor.name);
  const names = ['client', 'hex', 'unhex', 'given', 'refusal'];
  const asked = new (Object.getPrototypeOf(async () => 0).constructor)(...names, body);
  try { return await asked(client, hex, unhex, given, refusal); }
  catch (error) { return {refused: refusal(error)}; }
}"""


class Client:
    """A page with the module. It runs JavaScript with `client`, `hex`, `unhex`, `given` and `refusal`."""

    def __init__(self, page: Any) -> None:
        self.page = page

    def __call__(self, body: str, given: Any = None) -> Any:
        return self.page.evaluate(CALL, [body, given])

    def clear(self) -> None:
        """Nothing is remembered any more."""
        self.page.evaluate(CLEAR)

    def stored(self) -> dict[str, str]:
        """All that is remembered, by name."""
        found: dict[str, str] = self.page.evaluate(KEPT)
        return found


@contextmanager
def client_page() -> Iterator[Client]:
    """The module in a page; where there is no Chromium, its tests are left out."""
    with chromium() as browser:
        tabs = browser.new_context()
        host(tabs)
        yield opened(tabs)


def host(tabs: Any) -> None:
    """The site, for all pages of a context."""
    tabs.route(f"{SITE}client.js", lambda sent: sent.fulfill(body=SOURCE, content_type="text/javascript"))
    tabs.route(SITE, lambda sent: sent.fulfill(body="<!doctype html>", content_type="text/html"))


def opened(tabs: Any) -> Client:
    page = tabs.new_page()
    page.goto(SITE)
    return Client(page)


def altered(settings: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Other settings, under a fingerprint that fits; None leaves one out."""
    details = {name: value for name, value in (settings | changes).items() if value is not None}
    details.pop("fingerprint")
    return details | {"fingerprint": wire._digest(details).hex()}
