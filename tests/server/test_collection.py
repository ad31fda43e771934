"""Collections: a device built from `GET /api/collection` sends as many reports as it allows."""

from pathlib import Path

import pytest

from streamgauge import Pure
from streamgauge.localdp import ReportPaceError, build_device, wire
from tests.support.codes import has_code
from tests.support.polls import START, accepted_records, claim, house


def test_device_built_from_collection_counts_once_after_resending(tmp_path: Path) -> None:
    made = house(tmp_path)
    details = made.client().get("/api/collection").json()
    assert (details["start"], details["tick"]) == (START / 10**6, 10)
    device = build_device(details, "emoji", max_loss=Pure(2), now=lambda: details["start"])
    assert device.mechanism == claim(made)
    body = wire.pack_message(claim(made), [device.report("a")])
    key = device.key
    assert key is not None
    for _ in range(3):
        reply = made.client(Batch_Key=key).post("/api/reports", content=body)
        assert reply.json() == {"accepted": 1, "durable": True}
    assert len(accepted_records(made)) == 1
    with pytest.raises(ReportPaceError, check=has_code("report_limit")):
        device.report("a")
