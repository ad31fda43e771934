"""Reports of a tick under one name, as before they were cut in parts: they leave as they came."""

from pathlib import Path

from pipelines import published, run
from reported_polls import WINDOWS, drawn, expected, poll, sending

from streamgauge import Pipeline
from streamgauge.pipeline.keys import key_of
from streamgauge.pipeline.store import Store


def write_as_before(made: Pipeline) -> int:
    """The rows of each tick under the tick alone; returns of how many."""
    store = Store.open(made.file.folder, key_of(made.file), create=False)
    try:
        rows = {name: part for name, part in store.state().items() if "/rows/" in name}
        before = {name.removesuffix("/0"): part for name, part in rows.items()}
        store.commit(state={**dict.fromkeys(rows), **before})
        return len(set(before) - set(rows))
    finally:
        store.close()


def test_ticks_of_one_part_under_another_name_are_counted_once_however_often_it_starts(
    tmp_path: Path,
) -> None:
    made = poll(tmp_path)
    ticks = [drawn(made, "abca" * often, often) for often in (10, 2, 3, 1, 4)]
    how = sending(tmp_path, made, {10 * tick + 2: codes for tick, codes in enumerate(ticks)}, 999)
    changed = []
    for tick in range(1, 6):
        how["stop"].clear()
        how["clock"].acts[10 * tick + 1.5] = how["stop"].set
        run(made, **how)
        changed.append(write_as_before(made) if tick == 1 else 0)
    assert changed[0] > 0
    for name, reach in WINDOWS.items():
        assert published(made, name) == expected(made, ticks, reach)
