"""Streams as a pipeline file would declare them, and what the tests ask of sources again and again."""

from streamgauge import Event, Pure
from streamgauge.config.settings import Column, Stream


def stream(source, format="jsonl", **others):
    settings = {"compression": None, "mode": "batch", "columns": {"a": Column("a"), "b": Column("b")}}
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


def text(blocks):
    return b"".join(block.data for block in blocks)


def rules(blocks):
    return [dropped.rule for block in blocks for dropped in block.dropped_records]


def drained(live):
    """All blocks that are there now."""
    blocks = []
    for _ in range(10_000):
        block = live.read()
        if block is not None:
            blocks.append(block)
        elif live.at_end:
            return blocks
    raise AssertionError("a source that is never caught up")
