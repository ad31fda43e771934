"""What is public of a run besides the numbers that it measured: nothing in it may depend on the data.

    printed    on standard output but for rows, and on standard error; warnings among it
    raised     the kind of a failure and its words: exit codes follow from the kind
    named      the files that there are
    sinks      all bytes but measured numbers and chains, in order; how the numbers are written

Counters for the curator (`curator.log`, the bar on a terminal) are private, and not looked at.
"""

from collections.abc import Sequence
from hashlib import blake2b

from streamgauge.audit.overheard import Overheard
from streamgauge.audit.sink_forms import Found
from streamgauge.query.formats import STANDARD
from streamgauge.query.settings import PipelineFile


def besides(file: PipelineFile, sinks: Sequence[Found], heard: Overheard, raised: Exception | None) -> str:
    own = str(file.path.parent)
    printed = () if any(sink.to == STANDARD for sink in file.sinks) else (heard.out.decode(errors="replace"),)
    told = "" if raised is None else f"{type(raised).__name__}: {raised}"
    said = [each.replace(own, "") for each in (*printed, heard.errors.getvalue(), told)]
    names = sorted(str(path.relative_to(own)) for path in file.path.parent.rglob("*"))
    return repr((said, heard.killed, names, [of_sink(found) for found in sinks]))


def of_sink(found: Found) -> tuple[str, bytes, list[str]]:
    """A hash of its text, what of it is no row, and numbers that are written oddly."""
    return blake2b(found.text, digest_size=16).hexdigest(), found.rows()[1], found.oddities()
