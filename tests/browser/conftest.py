"""Fixtures: a browser page with client.js."""

from collections.abc import Iterator

import pytest

from tests.support.browser_client import Client, client_page


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with client_page() as found:
        yield found


@pytest.fixture
def fresh(client: Client) -> Client:
    """The same page with empty storage."""
    client.clear()
    return client
