"""The OpenAPI document: it has every road, and the server does what it says, whatever it is sent."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import jsonschema_rs
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from people import House, clinic
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from streamgauge.pipeline.keys import create_key
from streamgauge.query.release_tables import RELEASE_KEYS
from streamgauge.server.download_forms import load_arrow
from streamgauge.server.openapi import document
from streamgauge.server.runner import Runner

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
ENDLESS = "/api/live"
TOLD = {
    (path, method): told
    for path, methods in document()["paths"].items()
    for method, told in methods.items()
    if path != ENDLESS
}
GOOD = [(*road, GenerationMode.POSITIVE) for road in TOLD]
BAD = [
    (*road, GenerationMode.NEGATIVE)
    for road, told in TOLD.items()
    if {"parameters", "requestBody"} & set(told)
]
FEW = settings(
    max_examples=10,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
    database=None,
)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A real run, at work."""
    load_arrow()  # on a busy machine its first import outlasts the client's patience
    folder = tmp_path_factory.mktemp("described")
    create_key(folder / "clinic.key")
    start = f"{datetime.now(UTC) - timedelta(seconds=3):%Y-%m-%dT%H:%M:%SZ}"
    server = {"rate": 10**6, "publish_delay": "20ms", "show_intruder": True}
    file = clinic(folder, {"start": start, "tick": "1s", "lateness": "0s"}, **server)
    runner = Runner(file)
    runner.start()
    yield House(folder, runner)
    runner.stop()


@pytest.mark.parametrize(("path", "method", "mode"), [*GOOD, *BAD])
def test_whatever_is_sent_is_answered_as_the_document_says(
    house: House, path: str, method: str, mode: GenerationMode
) -> None:
    schema = schemathesis.openapi.from_asgi("/api/openapi.json", house.app)
    headers = {"Authorization": f"Bearer {house.secrets['curator']}"}

    @FEW
    @given(case=schema[path][method].as_strategy(generation_mode=mode))
    def answered(case: Any) -> None:
        case.call_and_validate(headers=headers, checks=CHECKS)

    answered()
    assert house.log == []


def test_the_document_has_every_road_of_the_api(house: House) -> None:
    served = {
        (route.path_format, method.lower())
        for route in house.app.routes
        if isinstance(route, Route) and not route.path.startswith(("/page/", "/plotly")) and route.path != "/"
        for method in route.methods or ()
    }
    told = {(path, method) for path, methods in document()["paths"].items() for method in methods}
    assert {road for road in served if road[1] != "head"} == told


def test_every_reference_leads_somewhere_and_every_schema_is_used() -> None:
    text = json.dumps(document())
    for name in document()["components"]["schemas"]:
        assert f'"#/components/schemas/{name}"' in text
    assert text.count('"$ref"') == sum(
        text.count(f'"#/components/schemas/{name}"') for name in document()["components"]["schemas"]
    )


def test_every_operation_says_who_may_and_what_may_go_wrong() -> None:
    for methods in document()["paths"].values():
        for told in methods.values():
            assert told["summary"]
            assert told["tags"][0] in {"anybody", "readers", "analysts", "curators"}
            assert {"401", "403", "429"} <= set(told["responses"])


def test_what_may_be_asked_for_is_what_a_file_may_say(house: House) -> None:
    schema = document()["components"]["schemas"]["Asked"]
    assert set(schema["properties"]) == set(RELEASE_KEYS)
    body = {"name": "m", "sql": "SELECT COUNT(*) FROM visits", "epsilon": 0.1, "expected": 5, "horizon": "1h"}
    for mechanism in ("Binary", {"name": "Kary", "branching": 4}):
        asked = body | {"mechanism": mechanism}
        jsonschema_rs.validate(schema, asked)
        assert house.client("analyst").post("/api/plan", json=asked).json()["release"] is not None


def test_releases_are_listed_as_the_document_says_with_groups_that_are_discovered_too(house: House) -> None:
    schema = document()["components"]["schemas"]["Releases"]["properties"]["releases"]["items"]
    listed, *_ = (
        house.client("reader").get("/api/releases").json()["releases"]
    )  # the file's; others were asked
    assert set(listed) == set(schema["required"])
    jsonschema_rs.validate(schema, listed | {"places": None, "discovered": True, "delta": "1/1000"})


def test_the_document_says_nothing_of_this_stream(house: House) -> None:
    assert house.client().get("/api/openapi.json").json() == document()


def test_a_server_that_does_not_do_what_it_says_is_caught(house: House) -> None:
    """A broken twin: a road whose reply is of another form than the document has."""

    async def broken(request: Any) -> Response:
        return JSONResponse({"state": "fine"}, 418)

    house.app.router.routes.insert(0, Route("/healthz", broken))
    try:
        schema = schemathesis.openapi.from_asgi("/api/openapi.json", house.app)
        with pytest.raises(FailureGroup, match="Undocumented status code"):
            schema["/healthz"]["get"].Case().call_and_validate(checks=CHECKS)
    finally:
        del house.app.router.routes[0]
