"""Sources: bytes become clean whole lines.

paths             paths of a source
line_reader       whole lines from pieces of bytes
compression       decompression in bounded pieces
file              batch files
parquet           Parquet files
tail              a file that grows and is rotated
growing_file      one file that grows until it is rotated
folder            a folder that receives files
stdin             standard input
http              batches posted to the server
http_ephemeral    batches of pan-private pipelines
kinds             the source of a [stream] table
errors            errors of sources
"""

from streamgauge.sources.errors import SourceAccessError, SourceError
from streamgauge.sources.http import EventInbox, Inbox, InboxFullError, Ticket, build_inbox
from streamgauge.sources.kinds import find_source, open_batch_source, open_inbox, open_streaming_source
from streamgauge.sources.stdin import StandardInput

__all__ = [
    "EventInbox",
    "Inbox",
    "InboxFullError",
    "SourceAccessError",
    "SourceError",
    "StandardInput",
    "Ticket",
    "build_inbox",
    "find_source",
    "open_batch_source",
    "open_inbox",
    "open_streaming_source",
]
