"""What a curator ends at a start: releases that were asked for.

A service says the same at every start (`Restart=`). So what has ended already is told in a line, and is no
reason not to start.
"""

from collections.abc import Sequence
from typing import Any

from streamgauge.cli.watching import Watching
from streamgauge.pipeline.book import Entry
from streamgauge.pipeline.reading import read_book


def endings(watching: Watching, end: Sequence[str], cut: Sequence[str]) -> dict[str, Any]:
    """What is left to be ended, and to be cut: how a run is told."""
    file = watching.file
    known = read_book(file.folder, file.stream).latest() if end or cut else {}
    ended = [name for name in end if name not in cut]
    for name in (*ended, *cut):
        if is_over(known.get(name), cut=name in cut):
            watching.note(f"release {name} has ended already, so there is nothing to end")
    return {
        "ended": tuple(name for name in ended if not is_over(known.get(name), cut=False)),
        "cut": tuple(name for name in cut if not is_over(known.get(name), cut=True)),
    }


def is_over(entry: Entry | None, *, cut: bool) -> bool:
    """Whether a release was ended, and, if it is to be cut, does not run on."""
    return entry is not None and entry.ended is not None and not (cut and entry.runs_on)
