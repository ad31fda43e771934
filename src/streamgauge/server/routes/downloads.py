"""Whole releases as CSV or Arrow, streamed in blocks.

    worker: short read of the store > block of bytes > socket, when it is ready for more > worker

Promise
    A download is the release as it was when the request came. Entries that leave later change no byte of it.
    Each block is read in a separate transaction, so no client keeps the store's journal from being emptied.
    Memory is one block for each download: at most `block_cells` numbers, or a part of one tick. Other reads
    wait for one block, so it has at most `block_ticks` ticks, however narrow they are.

    A transfer that breaks off can be detected. The body is sent in chunks, and the last chunk is sent only
    after the last row. `Row-Count` and `Tick-Count` are sent before the body.
"""

import asyncio
from collections.abc import Mapping
from contextlib import ExitStack

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from streamgauge.releases.release import TickRelease
from streamgauge.releases.schema import ReleaseSchema
from streamgauge.server.http.read_worker import ReadWorker
from streamgauge.server.publishing.reader import PublishedReader, ReaderPool
from streamgauge.server.routes.download_formats import DownloadFormat
from streamgauge.server.routes.release_pages import ReleaseSelection, slice_groups
from streamgauge.server.routes.release_query import ReleaseQuery
from streamgauge.server.tuning import DEFAULT_TUNING, Tuning

MAX_PAYLOADS = 64  # that one short read returns

Span = tuple[int, int]  # the first and the last tick


class BlockReader:
    """The rows of a download, block by block; one thread at a time."""

    def __init__(
        self,
        readers: ReaderPool,
        until: int,
        shape: ReleaseSchema,
        form: DownloadFormat,
        *,
        requested: ReleaseQuery,
        span: Span,
        tuning: Tuning = DEFAULT_TUNING,
    ) -> None:
        self.format, self.tuning = form, tuning
        self._readers, self._last_commit, self._shape = readers, until, shape
        self._select = ReleaseSelection(requested.groups, requested.measures)
        self._max_rows = max(1, tuning.block_cells // len(set(requested.measures) or shape.measures))
        self._step, self._payloads = requested.step, 1
        self._tick, self._last = span
        self._place = 0  # of the first tick, where the last block ended inside it

    def read(self) -> bytes | None:
        """Return the next block, which may be empty, or None after the last one."""
        if self._tick > self._last:
            return None
        with self._readers.lend(self._last_commit) as reader:
            items = self._read_items(reader)
        return self.format.encode(items) if items else b""

    def _read_items(self, reader: PublishedReader) -> list[TickRelease]:
        """Return the ticks of a block, or a part of one; move on behind them."""
        items: list[TickRelease] = []
        rows = size = ticks = 0
        payloads = reader.releases(self._shape.release, self._tick, self._last, self._step, self._payloads)
        for tick, payload in payloads:
            if ticks == self.tuning.block_ticks:
                self._tick = tick
                return items
            whole = self._select(TickRelease.unpack(self._shape, payload))
            count = len(whole.shape.groups)
            if size and (rows + count > self._max_rows or size + len(payload) > self.tuning.block_bytes):
                self._tick = tick
                return items
            fitting = min(self._max_rows // max(1, count), self.tuning.block_bytes // len(payload))
            self._payloads = max(1, min(MAX_PAYLOADS, fitting))
            rows, size, ticks = rows + count, size + len(payload), ticks + 1
            if count > self._max_rows:
                return [self._slice_tick(whole, tick)]
            items += [whole] if count else []
            self._tick = tick + self._step
        self._tick = max(self._tick, self._last + 1)
        return items

    def _slice_tick(self, whole: TickRelease, tick: int) -> TickRelease:
        """Return the next part of a tick that has more rows than a block."""
        part = slice_groups(whole, self._place, self._max_rows)
        self._place += self._max_rows
        self._tick = tick
        if self._place >= len(whole.shape.groups):
            self._tick, self._place = tick + self._step, 0
        return part


class DownloadResponse(Response):
    """A reply of many blocks, which ends early if its reader disconnects or stalls."""

    def __init__(
        self, blocks: BlockReader, worker: ReadWorker, client: str, *, headers: Mapping[str, str], media_type: str
    ) -> None:
        super().__init__(headers=dict(headers), media_type=media_type)
        del self.headers["content-length"]
        self.blocks, self.worker, self.client = blocks, worker, client
        self.slot = ExitStack()  # closed at any end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self.slot:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            if scope["method"] == "HEAD":
                await send({"type": "http.response.body", "body": b""})
                return
            disconnected = asyncio.ensure_future(wait_disconnect(receive))
            try:
                await self._stream(send, disconnected)
            finally:
                disconnected.cancel()

    async def _stream(self, send: Send, disconnected: "asyncio.Future[None]") -> None:
        block: bytes | None = self.blocks.format.header
        size = self.blocks.tuning.piece_bytes
        while block is not None:
            for first in range(0, len(block), size):
                if disconnected.done():
                    return
                await self._send(send, block[first : first + size])
            block = await self.worker.run(self.client, self.blocks.read, "downloads")
        await self._send(send, self.blocks.format.end, last=True)

    async def _send(self, send: Send, data: bytes, *, last: bool = False) -> None:
        try:
            async with asyncio.timeout(self.blocks.tuning.stall_seconds):
                await send({"type": "http.response.body", "body": data, "more_body": not last})
        except TimeoutError:
            raise ClientDisconnect from None


async def wait_disconnect(receive: Receive) -> None:
    """Return when the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
