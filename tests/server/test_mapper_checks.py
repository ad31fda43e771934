"""POST /api/mappers/check: refusals with lines, and dry runs on typed rows."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.people import House
from tests.support.pipelines import Tables

CODE = """
def mapper(region, temperature, ts):
    if region == "north":
        emit("warm", temperature - 35)
    if ts.hour < 6:
        emit("night", 1)
"""
MAPPER: Tables = {
    "source": CODE,
    "columns": ["region", "temperature", "ts"],
    "keys": ["warm", "night"],
    "max_pairs": 2,
    "bounds": [0, 5],
}


COLUMNS = {"region": {"values": ["north", "south"]}, "temperature": {"bounds": [35, 42]}}


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path, stream={"columns": COLUMNS})


def check(house: House, body: Tables, role: str = "analyst") -> Any:
    return house.client(role).post("/api/mappers/check", json=body)


def test_typed_rows_give_pairs_and_steps(house: House) -> None:
    rows = [
        {"region": "north", "temperature": 37.5, "ts": "2026-01-05T05:00:00"},
        {"region": "north", "temperature": 60},
        {"region": 7, "temperature": "warm", "ts": "soon", "other": 1},
    ]
    reply = check(house, {"map": MAPPER, "rows": rows}).json()
    assert reply["refusal"] is None
    pairs = [[(pair["key"], pair["value"]) for pair in row["pairs"]] for row in reply["rows"]]
    assert pairs == [[("warm", 2.5), ("night", 1)], [("warm", 5)], []]
    assert all(row["is_complete"] and row["steps"] > 0 for row in reply["rows"])


def test_refusals_have_their_line(house: House) -> None:
    reply = check(house, {"map": MAPPER | {"source": CODE + "    import os\n"}}).json()
    assert reply["refusal"]["line"] == 7
    assert "nothing can be imported" in reply["refusal"]["message"]
    assert check(house, {"map": MAPPER | {"keys": []}}).json()["refusal"]["line"] is None


def test_endless_mappers_end(house: House) -> None:
    endless = {"source": "def mapper(region):\n    while True:\n        pass\n", "columns": ["region"], "keys": ["k"]}
    reply = check(house, {"map": endless, "rows": [{}] * 20}).json()
    assert [row["is_complete"] for row in reply["rows"]] == [False] * 20


@pytest.mark.parametrize(
    "body", [{}, {"map": MAPPER, "rows": [1]}, {"map": MAPPER, "rows": [{}] * 21}, {"map": MAPPER, "data": []}]
)
def test_other_bodies_are_refused(house: House, body: Tables) -> None:
    assert check(house, body).status_code == 422


@pytest.mark.parametrize(("role", "status"), [("reader", 403), ("sender", 403), ("curator", 200)])
def test_readers_and_senders_cannot_check(house: House, role: str, status: int) -> None:
    assert check(house, {"map": MAPPER}, role).status_code == status


def test_requests_may_contain_a_mapper(house: House) -> None:
    pytest.importorskip("wasmtime")
    body = {"name": "warm", "map": MAPPER, "reduce": "mean", "window": "running", "epsilon": 0.1}
    planned = house.client("analyst").post("/api/plan", json=body).json()
    assert planned["refusals"] == []
    assert "avg_value" in str(planned["release"])
