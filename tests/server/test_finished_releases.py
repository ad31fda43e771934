"""Finished releases: readers have their last tick, wherever the ledger has their end."""

from typing import Any

import pytest

from streamgauge.privacy import Event
from streamgauge.runtime.ledger.log import ChargedRelease, LedgerLog
from streamgauge.server.publishing.reader import FinishedReleases
from streamgauge.store.store import LedgerEntry

LASTS = {"short": 2, "long": 5}  # horizons
PASSED = 9  # the tick at which they are ended


class PublishedTicks:
    """A reader that has all ticks, or all but the last `less` ticks of each release."""

    def __init__(self, less: int = 0) -> None:
        self.less = less

    def last_released(self, name: str) -> int:
        return LASTS[name] - self.less


def ended(order: tuple[str, ...], passed: dict[str, int]) -> LedgerLog:
    """Return a ledger in which releases were ended after their horizons, in the given order."""
    ledger_log = LedgerLog.read([LedgerEntry("budget", {"loss": {"epsilon": "1"}})], Event())
    for name, last in LASTS.items():
        body = {
            "release": name,
            "loss": {"epsilon": "1/9"},
            "first": 1,
            "last": last,
            "block": "",
            "requested_by": "ana",
        }
        ledger_log = ledger_log.with_entries([*ledger_log.ledger_entries, LedgerEntry("charge", body)])
    for name in order:
        ledger_log.end(name, passed[name], is_draining=True)
    return ledger_log


def find_finished(ledger_log: LedgerLog, reader: Any) -> frozenset[str]:
    return FinishedReleases().find_finished(ledger_log, reader)


@pytest.mark.parametrize("order", [("short", "long"), ("long", "short")])
@pytest.mark.parametrize("passed", [LASTS, dict.fromkeys(LASTS, PASSED)], ids=["streaming", "batch"])
def test_release_ended_after_horizon_is_finished_at_its_last_tick(
    order: tuple[str, ...], passed: dict[str, int]
) -> None:
    ledger_log = ended(order, passed)
    assert find_finished(ledger_log, PublishedTicks()) == set(LASTS)
    assert find_finished(ledger_log, PublishedTicks(less=1)) == set()
    assert not ledger_log.active_releases(find_finished(ledger_log, PublishedTicks()))


class EndTickReleases(FinishedReleases):
    """A twin that waits for the tick of the end, which may never come."""

    @staticmethod
    def find_final_tick(release: ChargedRelease) -> int | None:
        return release.end_tick


def test_twin_that_waits_for_end_tick_misses_finished_release() -> None:
    assert EndTickReleases().find_finished(ended(("long", "short"), LASTS), PublishedTicks()) == {"long"}  # type: ignore[arg-type]
