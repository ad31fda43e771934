"""Strict reading of request heads: no message that two parsers could split differently.

A proxy and this server must agree on where each request ends. If they do not, a client can hide a second
request inside the first (request smuggling). RFC 9112 lets a recipient repair some heads; this server rejects
them:

    bare line feeds                         a line ends with CR LF, nothing else
    folded headers                          a line that begins with a blank continues no other line
    Content-Length and Transfer-Encoding    one of them says how long a body is
    Transfer-Encoding in HTTP/1.0           that version has no chunks

The same holds for trailers of chunked bodies. h11 rejects the rest: bad chunk sizes, blanks before a colon,
Content-Length headers that differ, encodings other than chunked, a Host that is missing or comes twice.
"""

import re

import h11
from h11._receivebuffer import ReceiveBuffer

END = b"\r\n\r\n"
LOOSE = re.compile(rb"(?<!\r)\n|\n[ \t]")  # a bare line feed, or a folded line
LENGTH, ENCODING = b"content-length", b"transfer-encoding"


class StrictBuffer(ReceiveBuffer):
    """The receive buffer of h11, which accepts strict line ends only."""

    def maybe_extract_lines(self) -> list[bytearray] | None:
        """Return the lines of the next head or trailer; None as long as it is not complete.

        Raises:
            h11.LocalProtocolError: The head is malformed. h11 reports it as the client's error.
        """
        if self._data[:2] == END[:2]:
            self._extract(2)
            return []
        begin = self._multiple_lines_search
        end = self._data.find(END, begin)
        if LOOSE.search(self._data, begin, len(self._data) if end < 0 else end + len(END) - 1):
            raise h11.LocalProtocolError("lines must end with CR LF and not be folded")
        if end < 0:
            self._multiple_lines_search = max(0, len(self._data) - len(END) + 1)
            return None
        lines = self._extract(end + len(END))[: -len(END)].split(b"\r\n")
        check_framing(lines)
        return lines


def check_framing(lines: list[bytearray]) -> None:
    """Reject a head that states the length of its body in two ways, or in one that its version lacks.

    >>> check_framing([bytearray(b"GET / HTTP/1.0"), bytearray(b"Host: a")])
    """
    names = {bytes(line.partition(b":")[0]).strip().lower() for line in lines[1:]}
    if ENCODING in names and (LENGTH in names or lines[0].endswith(b"HTTP/1.0")):
        raise h11.LocalProtocolError("the length of a body must be stated once")


def make_strict(connection: h11.Connection) -> None:
    """Replace the receive buffer of a connection that has read nothing yet."""
    if type(connection._receive_buffer) is not ReceiveBuffer or connection._receive_buffer:
        raise TypeError("receive buffer must be h11's own and empty, got another")
    connection._receive_buffer = StrictBuffer()
