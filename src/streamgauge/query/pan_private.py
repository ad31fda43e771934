"""pan_private = true: what a stream must be whose memory is private too, and what its releases can be.

    arrival       live                 what is all there is an exact memory already
    source        "http" or "-"        so is a file that can be read again, and a position in it
    lateness      nothing              one tick is open at a time: its sums rest under noise, in one register
    earliness     nothing              each
    unit          "event", w_event     every release is a counter whose ticks are open (`continual`)
                  { user = ... }       without bounds, which someone had to remember: releases are estimates
                                       from the tables of `panprivate`

`intrusions` is how many announced intrusions are reserved by the plan, where each takes of the loss: for
tables. Counters survive any number, and reserve none.
"""

from collections.abc import Sequence
from typing import Any

from streamgauge.privacy import Unit, XAdjacent
from streamgauge.query.durations import spelled
from streamgauge.query.formats import HTTP, STANDARD
from streamgauge.query.mechanism_names import AUTO
from streamgauge.query.query import Aggregate, AggregateKind, Refused
from streamgauge.query.settings import Release, Stream
from streamgauge.query.toml_keys import BadFile, Table
from streamgauge.query.toml_rules import DURATION, SWITCH, whole

WITH = "with pan_private = true"
OF_USERS: tuple[AggregateKind, ...] = ("density", "heavy_fraction", "cropped_mean")
OPEN_COUNTERS = ("Kary", "SimpleII", "WindowSum")
MOST_INTRUSIONS = 1000


def is_private(table: Table) -> bool:
    """Whether the whole pipeline is pan-private."""
    return table.optional("pan_private", SWITCH, False)


def private_settings(table: Table, source: dict[str, Any], unit: Unit) -> dict[str, Any]:
    """The settings of a stream that pan-privacy decides; refuses what it cannot go with."""
    if not is_private(table):
        if "intrusions" in table:
            raise BadFile(f"{table.at('intrusions')} must be left out unless pan_private = true, got some")
        return {}
    _check_source(table, source)
    for name in ("lateness", "earliness"):
        if length := table.optional(name, DURATION, 0):
            why = "one tick is open at a time"
            raise BadFile(f'{table.at(name)} must be "0s" {WITH} ({why}), got "{spelled(length)}"')
    reserved = table.optional("intrusions", whole(least=0, most=MOST_INTRUSIONS), 0)
    if reserved and not isinstance(unit, XAdjacent):
        why = "counters survive any number"
        rule = f"must be left out unless unit = {{ user = ... }} ({why})"
        raise BadFile(f"{table.at('intrusions')} {rule}, got {reserved}")
    return {"pan_private": True, "earliness": 0, "intrusions": reserved}


def _check_source(table: Table, source: dict[str, Any]) -> None:
    if source["source"] not in (HTTP, STANDARD):
        why = "what can be read again is an exact memory"
        raise BadFile(f'{table.at("source")} must be "http" or "-" {WITH} ({why}), got a file or folder')
    if source["arrival"] != "live":
        why = "all of a finished one would be held exactly"
        raise BadFile(f'{table.at("arrival")} must be "live" {WITH} ({why}), got "{source["arrival"]}"')


def check_release(release: Release, stream: Stream) -> None:
    """Refuses a release whose memory could not be private in the middle of a tick."""
    if not stream.pan_private or isinstance(stream.unit, XAdjacent):
        return
    if release.window.startswith("decayed"):
        raise Refused(f'window must be "running", "each" or "sliding ..." {WITH}, got a decayed one')
    if release.mechanism not in (AUTO, *OPEN_COUNTERS):
        known = ", ".join(f'"{name}"' for name in OPEN_COUNTERS)
        raise Refused(f'mechanism must be "{AUTO}" or one of {known} {WITH}, got "{release.mechanism}"')


def check_no_users(aggregates: Sequence[Aggregate]) -> None:
    """What is read off tables of users needs the unit that they protect."""
    for aggregate in aggregates:
        if aggregate.kind in OF_USERS:
            rule = f"{aggregate.kind.upper()} must be asked under unit = {{ user = ... }} {WITH}"
            raise Refused(f"{rule}, got another unit")
