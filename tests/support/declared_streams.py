"""Streams as a pipeline file declares them, and requests that tests repeat."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from streamgauge import Event, Pure
from streamgauge.config.endpoints import Format
from streamgauge.config.settings import Column, Stream
from streamgauge.interfaces import StreamingSource
from streamgauge.records.blocks import Block


def stream(source: str | Path, format: Format = "jsonl", **others: Any) -> Stream:
    settings: dict[str, Any] = {"compression": None, "mode": "batch", "columns": {"a": Column("a"), "b": Column("b")}}
    settings["time_format"] = "iso"
    return Stream(
        name="visits",
        source=str(source),
        format=format,
        time="ts",
        timezone="UTC",
        tick=60_000_000,
        start=0,
        end=None,
        unit=Event(),
        budget=Pure(1),
        **(settings | others),
    )


def text(blocks: Iterable[Block]) -> bytes:
    return b"".join(block.data for block in blocks)


def rules(blocks: Iterable[Block]) -> list[str]:
    return [dropped.rule for block in blocks for dropped in block.dropped_records]


def drained(live: StreamingSource) -> list[Block]:
    """All blocks that are there now."""
    blocks: list[Block] = []
    for _ in range(10_000):
        block = live.read()
        if block is not None:
            blocks.append(block)
        elif live.at_end:
            return blocks
    raise AssertionError("a source that is never caught up")
