"""A collection tells a device how often it may report, and a device that is made of it keeps to that."""

from pathlib import Path

import pytest
from polls import START, claim, house, taken

from streamgauge import Pure
from streamgauge.localdp import NoReportLeft, device_of, wire


def test_a_device_of_what_a_server_tells_sends_its_report_once_however_often_it_is_lost(
    tmp_path: Path,
) -> None:
    made = house(tmp_path)
    told = made.client().get("/api/collection").json()
    assert (told["start"], told["tick"]) == (START / 10**6, 10)
    device = device_of(told, "emoji", agreed=Pure(2), now=lambda: told["start"])
    assert device.claim == claim(made)
    body = wire.message(claim(made), [device.report("a")])
    key = device.key
    assert key is not None
    for _ in range(3):
        reply = made.client(Batch_Key=key).post("/api/reports", content=body)
        assert reply.json() == {"accepted": 1, "durable": True}
    assert len(taken(made)) == 1
    with pytest.raises(NoReportLeft):
        device.report("a")
