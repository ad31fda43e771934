"""Reports that are vectors of bits, as records have them: the base64 of their bytes, one text for each.

    {"emoji": "AQB7f0Ay"}        letters of RFC 4648, with + and /, and = at the end where bytes are left over

Promise
    Total, and each text separately: a text that is no report of the size, or not in the one spelling that a
    report has, is marked as invalid and changes no other.
"""

from base64 import b64decode, b64encode
from collections.abc import Sequence

import numpy as np

from streamgauge.localdp.report_bytes import Reports
from streamgauge.noise.coerce import Bools

LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
IS_LETTER = np.isin(np.arange(256, dtype=np.uint8), np.frombuffer(LETTERS, np.uint8))
ZERO_CODE, PADDING_CODE = ord("A"), ord("=")


def text_size(size: int) -> int:
    """Return how many letters a report of so many bytes has.

    >>> text_size(3), text_size(130)
    (4, 176)
    """
    return 4 * -(-size // 3)


def encode_reports(reports: Reports) -> list[str]:
    """The text of each.

    >>> encode_reports(np.array([[1, 0], [255, 3]], np.uint8))
    ['AQA=', '/wM=']
    """
    count, size = reports.shape
    length, left_over = text_size(size), -size % 3
    whole = np.pad(reports, ((0, 0), (0, left_over)))
    letters = np.frombuffer(b64encode(whole.tobytes()), np.uint8).reshape(count, length).copy()
    letters[:, length - left_over :] = PADDING_CODE
    text = letters.tobytes().decode()
    return [text[at : at + length] for at in range(0, len(text), length)]


def decode_reports(texts: Sequence[object], size: int) -> tuple[Reports, Bools]:
    """The reports of some texts, and which of them are one; the others have rows of zeros.

    >>> rows, good = decode_reports(["AQA=", "AQB=", "AQAA", 7, "é=="], 2)
    >>> rows[good].tolist(), good.tolist()
    ([[1, 0]], [True, False, False, False, False])
    """
    length, left_over = text_size(size), -size % 3
    octets = [_encode_text(text, length) for text in texts]
    letters = np.frombuffer(b"".join(octets), np.uint8).reshape(len(octets), length).copy()
    good = IS_LETTER[letters[:, : length - left_over]].all(1)
    good &= (letters[:, length - left_over :] == PADDING_CODE).all(1)
    letters[:, length - left_over :] = ZERO_CODE
    letters[~good] = ZERO_CODE
    rows = np.frombuffer(b64decode(letters.tobytes()), np.uint8).reshape(len(octets), size + left_over)
    return rows[:, :size], good & ~rows[:, size:].any(1)


def _encode_text(text: object, length: int) -> bytes:
    """Those of a text that is as long as it must be, and of any other as many of no text."""
    octets = text.encode(errors="replace") if isinstance(text, str) and len(text) == length else b""
    return octets if len(octets) == length else bytes(length)
