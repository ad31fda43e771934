"""Faults and small limits that several tests of counters share."""

import pytest


@pytest.fixture
def transforms_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decode short streams by transforms, like long ones."""
    for module in ("toeplitz", "convolution"):
        monkeypatch.setattr(f"streamgauge.continual.factorizations.{module}.MAX_DIRECT_PRODUCTS", 0)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Process 64 numbers at once."""
    monkeypatch.setattr("streamgauge.continual.mechanism.CHUNK_NUMBERS", 64)
