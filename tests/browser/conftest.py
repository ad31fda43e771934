"""A browser that has client.js, for those who ask for one."""

from collections.abc import Iterator

import pytest

from tests.support.browser_client import Client, client_page


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with client_page() as found:
        yield found


@pytest.fixture
def fresh(client: Client) -> Client:
    """The same, with nothing in its storage."""
    client.clear()
    return client
