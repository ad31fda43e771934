"""source = "reports": records that devices send, with columns that were made private on the device.

    senders = "anyone"      no token: any device, or page of another site, may send (`server.reports`)
    senders = "curator"     a gateway with a curator's token sends for them

Devices' clocks are not asked: a record's time is when it arrived. So nothing is late, and what decides a tick
is the server's clock alone; a record that arrived as its tick closed counts in the next.

Privacy
    Neighbours: streams that differ in what *one* record says (unit = "report"). That it came, when, and which
    of its columns it has, is public: participation is not protected. A column of reports has lost its epsilon
    before anybody read it; what other columns say is protected by releases, as for any stream.
"""

from collections.abc import Mapping
from typing import Any, Literal

from streamgauge.query.formats import REPORTS
from streamgauge.query.toml_keys import BadFile, Rule, Table, joined
from streamgauge.query.toml_rules import PATH, one_of

ARRIVED = "arrived"  # the column that the server writes
SENDERS: Rule[Literal["anyone", "curator"]] = one_of("anyone", "curator")
ARRIVES = "a report's time is when it arrived"
NOT_ASKED = dict.fromkeys(("time", "time_format", "lateness", "earliness", "late"), ARRIVES)
NOT_ASKED["pan_private"] = "reports are private already, and sums of other columns are kept exactly"


def is_reported(stream: Table) -> bool:
    """Whether records come from devices."""
    return bool(stream.required("source", PATH) == REPORTS)


def reported(stream: Table) -> dict[str, Any]:
    """The settings of such a stream; refuses what the arrival decides."""
    for key, why in NOT_ASKED.items():
        if key in stream:
            raise BadFile(f'{stream.at(key)} must be left out where source = "{REPORTS}" ({why}), got one')
    return {"source": REPORTS, "senders": stream.required("senders", SENDERS)}


def check_source(stream: Table) -> None:
    """Refuses columns of reports, and senders, where the source has none: before all that any other source
    must say."""
    if is_reported(stream):
        return
    for name, column in stream.tables("columns").items():
        if isinstance(column, Mapping) and "report" in column:
            where = joined(stream.at("columns"), name)
            raise stream.bad("source", f'"{REPORTS}" where a column has reports ({where})', (REPORTS,))
    if "senders" in stream:
        raise BadFile(f'{stream.at("senders")} must be left out unless source = "{REPORTS}", got some')
