"""What a collection tells (`GET /api/collection`), as a device that keeps to it.

    device = device_of(collection, "emoji", agreed=Pure(2), keep=MemoryFile("emoji.memory"))
    device = device_of(collection, "emoji", agreed=Pure(2), keep=store, memory=kept)

`again`, `reports_per_user`, the tick and the start become the device's rule and its pace. Who collects is not
trusted, and might ask for more every day: `agreed` is what all reports of the device may cost, by whoever
makes it, and a collection that asks for more is refused.

Privacy
    All reports lose `agreed` together at most, whatever the collection becomes and however often the device
    is loaded from its newest memory. What was spent is kept as an exact sum: a rule that charges draws within
    what is asked now, those of before among it; one that repeats draws if nothing was spent, and sends what
    was sent last to the same settings again, or nothing (OtherCollection).
"""

from typing import Any

from streamgauge.localdp.again import Again, Charge, Repeat
from streamgauge.localdp.device import Device
from streamgauge.localdp.wire import BadSettings, claim_of
from streamgauge.privacy import Pure


class NotAgreed(ValueError):  # noqa: N818 - named for what happened
    """A collection asks for more than was agreed to."""


def device_of(
    collection: Any, column: str, *, agreed: Pure, memory: bytes | None = None, **settings: Any
) -> Device:
    """The device of a column, blank or with the memory that it kept; settings are those of `Device`, whose
    `keep` may be a file that has the memory."""
    told = _told(collection, column)
    claim, most = claim_of(told.get("settings")), told.get("reports_per_user")
    if not (type(most) is int and most >= 1):
        raise BadSettings(f"reports_per_user must be a whole number from 1 on, got {most!r}")
    asked = claim.loss.group(most if told.get("again") == "charge" else 1)
    if not isinstance(agreed, Pure):
        raise ValueError(f"agreed must be Pure, got {agreed!r}")
    if asked > agreed:
        raise NotAgreed(f"agreed must be at least {asked}, which the collection asks for, got {agreed}")
    pace = {"most": most, "every": collection.get("tick"), "since": collection.get("start")}
    again = _again(told.get("again"), asked)
    if memory is None:
        return Device(claim, again, **pace, **settings)
    return Device.loaded(claim, memory, again, **pace, **settings)


def _told(collection: Any, column: str) -> dict[str, Any]:
    columns = collection.get("columns") if isinstance(collection, dict) else None
    if not isinstance(columns, dict):
        raise BadSettings("collection must be what /api/collection tells, got another")
    if not isinstance(columns.get(column), dict):
        raise BadSettings(f"column must be one of {', '.join(map(str, columns))}, got {column!r}")
    return dict(columns[column])


def _again(name: Any, asked: Pure) -> Again:
    if name == "repeat":
        return Repeat()
    if name == "charge":
        return Charge(asked)
    raise BadSettings(f"again must be repeat or charge, got {name!r}")
