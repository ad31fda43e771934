"""Built-in kinds of sources: a factory and public facts for each scheme."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event as Flag
from typing import Any

from streamgauge.config.endpoints import find_source_kind
from streamgauge.config.settings import PipelineFile, Stream
from streamgauge.interfaces import SOURCES, BatchSource, SourceKind, SourceRequest, StreamingSource
from streamgauge.sources.errors import SourceError
from streamgauge.sources.file import BatchFiles, find_compression
from streamgauge.sources.folder import LiveFolder
from streamgauge.sources.http import EventInbox, build_inbox
from streamgauge.sources.http_ephemeral import EphemeralInbox
from streamgauge.sources.paths import list_files, resolve_source_path
from streamgauge.sources.stdin import StandardInput, is_readable
from streamgauge.sources.tail import FollowedFile


def find_source(stream: Stream) -> SourceKind:
    """Return the kind of a stream's source."""
    return SOURCES.load(find_source_kind(stream.source), stream.plugins)


def open_batch_source(stream: Stream, base: Path, stop: Flag | None = None) -> BatchSource:
    """Open a complete source. Relative paths start from the folder `base`."""
    kind = find_source(stream)
    if kind.open_batch is None:
        raise SourceError(f'source must be one that is complete for mode = "batch", got {stream.source}')
    return kind.open_batch(SourceRequest(stream, base, stop))


def open_streaming_source(stream: Stream, base: Path, **settings: Any) -> StreamingSource:
    """Open a source that continues. `settings` are those of a `SourceRequest`."""
    kind = find_source(stream)
    if kind.open_streaming is None:
        raise SourceError(f'source must be one that continues for mode = "streaming", got {stream.source}')
    return kind.open_streaming(SourceRequest(stream, base, **settings))


def open_inbox(file: PipelineFile, now: Callable[[], int]) -> EventInbox | None:
    """Return the inbox for the server; None if the run itself reads the source."""
    if not file.stream.source_facts.needs_server:
        return None
    if file.stream.pan_private:
        return EphemeralInbox(max_waiting_bytes=file.server.max_buffer)
    return build_inbox(file, now)


def _open_tail(request: SourceRequest) -> StreamingSource:
    stream, path = request.stream, resolve_source_path(request.stream, request.base)
    if path.is_dir():
        return LiveFolder(path, stream)
    if stream.format == "parquet":
        raise SourceError(f"a live source of Parquet must be a folder, got {stream.source}")
    if find_compression(path, stream):
        raise SourceError(f"a file that is followed must be uncompressed, got {path}; put it into a folder")
    return FollowedFile(path, has_header=stream.format == "csv")


def _open_standard_input(request: SourceRequest) -> StandardInput:
    if request.stream.format == "parquet":
        raise SourceError(f"a live source of Parquet must be a folder, got {request.url}")
    if not is_readable(request.standard_input):
        raise SourceError("standard input must be open where it is the source, got a closed one")
    stream = request.stream
    return StandardInput(
        request.standard_input,
        has_header=stream.format == "csv",
        compression=stream.compression,
        forget_offsets=stream.pan_private,
    )


FILE = SourceKind(
    open_streaming=_open_tail,
    open_batch=lambda to: BatchFiles(to.stream, list_files(to.stream, to.base), to.stop),
    modes=("batch", "streaming"),
    default_mode="batch",
    formats=("jsonl", "csv", "parquet"),
    is_path=True,
)
STANDARD_INPUT = SourceKind(
    open_streaming=_open_standard_input,
    modes=("batch", "streaming"),
    default_mode=None,
    formats=("jsonl", "csv"),
    is_replayable=False,
    is_console=True,
    supports_pan_private=True,
)
HTTP = SourceKind(is_replayable=False, needs_server=True, supports_pan_private=True)
REPORTS = replace(HTTP, has_reports=True, supports_pan_private=False)
