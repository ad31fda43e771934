"""The OpenAPI document: it agrees with the routes both ways, and replies match it."""

import ast
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
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

from streamgauge.config.release import RELEASE_KEYS
from streamgauge.config.windows import EXAMPLES, MAX_WINDOWS, MIN_WINDOWS
from streamgauge.runtime.adhoc.planning import MAX_TEXT_CHARS
from streamgauge.runtime.intrusion.export import FOLDER_NAME_PATTERN
from streamgauge.server import routes
from streamgauge.server.app import load_openapi
from streamgauge.server.routes.download_formats import load_arrow
from streamgauge.server.routes.events import KEY_PATTERN
from streamgauge.server.routes.ledger import MAX_PAGE_CHARGES, MAX_PAGE_ENTRIES
from streamgauge.server.routes.release_query import (
    FORMAT_SHAPES,
    FORMATS,
    MAX_PAGE_ROWS,
    MAX_STEP_TICKS,
    REPEATED_PARAMETERS,
    SINGLE_PARAMETERS,
)
from streamgauge.server.routes.reports import ANONYMOUS_KEY_PATTERN
from streamgauge.server.runner import Runner
from streamgauge.store.keys import create_key
from tests.support.people import House, clinic

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
ENDLESS = "/api/live"
OPERATIONS: dict[tuple[str, str], dict[str, Any]] = {
    (path, method): details for path, methods in load_openapi()["paths"].items() for method, details in methods.items()
}
FINITE = {key: details for key, details in OPERATIONS.items() if key[0] != ENDLESS}
GOOD = [(*key, GenerationMode.POSITIVE) for key in FINITE]
BAD = [
    (*key, GenerationMode.NEGATIVE) for key, details in FINITE.items() if {"parameters", "requestBody"} & set(details)
]
FEW = settings(
    max_examples=10, phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck), database=None
)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A server with a real run."""
    load_arrow()  # on a busy machine the first import outlasts the client's timeout
    folder = tmp_path_factory.mktemp("described")
    create_key(folder / "clinic.key")
    start = f"{datetime.now(UTC) - timedelta(seconds=3):%Y-%m-%dT%H:%M:%SZ}"
    server = {"rate": 10**6, "publish_delay": "20ms", "show_intruder": True}
    file = clinic(folder, {"start": start, "tick": "1s", "allowed_lateness": "0s"}, **server)
    runner = Runner(file)
    runner.start()
    yield House(folder, runner)
    runner.stop()


@pytest.mark.one_of_each
@pytest.mark.parametrize(("path", "method", "mode"), [*GOOD, *BAD])
def test_replies_to_generated_requests_match_the_document(
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


def test_the_document_has_every_route_of_the_api(house: House) -> None:
    served = {
        (route.path_format, method.lower())
        for route in house.app.routes
        if isinstance(route, Route) and not route.path.startswith(("/page/", "/plotly")) and route.path != "/"
        for method in route.methods or ()
    }
    assert {key for key in served if key[1] != "head"} == set(OPERATIONS)


def test_every_reference_leads_somewhere_and_every_component_is_used() -> None:
    text, components = json.dumps(load_openapi()), load_openapi()["components"]
    places = [f'"#/components/{kind}/{name}"' for kind in ("schemas", "responses") for name in components[kind]]
    assert all(place in text for place in places)
    assert text.count('"$ref"') == sum(text.count(place) for place in places)


def parse_sources() -> Iterator[ast.Call]:
    """Every call in the modules of the server."""
    for path in Path(*routes.__path__).parent.rglob("*.py"):
        yield from (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))


def find_first_constants(owner: str, *names: str) -> set[str]:
    """First arguments of calls such as `request.query_params.get("column")`."""
    return {
        call.args[0].value
        for call in parse_sources()
        if isinstance(call.func, ast.Attribute) and call.func.attr in names and call.args
        if isinstance(call.args[0], ast.Constant) and ast.unparse(call.func.value).endswith(owner)
    }


def list_parameters(place: str) -> set[str]:
    return {
        parameter["name"]
        for details in OPERATIONS.values()
        for parameter in details.get("parameters", ())
        if parameter["in"] == place
    }


def test_document_has_exactly_the_parameters_of_the_routes(house: House) -> None:
    read = find_first_constants("params", "get", "getlist") | {*SINGLE_PARAMETERS, *REPEATED_PARAMETERS}
    assert list_parameters("query") == read - {"v"}  # of the page's own files, which the document does not have
    assert {name.lower() for name in list_parameters("header")} <= find_first_constants("headers", "get")
    for route in house.app.routes:
        for method in (route.methods or ()) & {"GET", "POST", "DELETE"} if isinstance(route, Route) else ():
            details = OPERATIONS.get((route.path_format, method.lower()), {}).get("parameters", ())
            assert {each["name"] for each in details if each["in"] == "path"} == set(route.param_convertors)


def test_document_has_exactly_the_statuses_of_the_code() -> None:
    """The generated requests above check the statuses of each operation."""
    raised = {
        node.value
        for call in parse_sources()
        if ast.unparse(call.func) in {"HttpError", "build_retry_error"}
        for argument in [*call.args[:1], *(each.value for each in call.keywords if each.arg == "status")]
        for node in ast.walk(argument)
        if isinstance(node, ast.Constant) and isinstance(node.value, int)
    }
    documented = {int(status) for details in OPERATIONS.values() for status in details["responses"]}
    assert documented == raised | {200, 201, 304, 503}


def test_the_document_has_the_limits_of_the_code() -> None:
    def find_schema(operation: tuple[str, str], name: str) -> Any:
        return next(each["schema"] for each in OPERATIONS[operation]["parameters"] if each["name"] == name)

    request, release = load_openapi()["components"]["schemas"]["ReleaseRequest"], ("/api/releases/{name}", "get")
    assert {name: request["properties"][name]["maxLength"] for name in MAX_TEXT_CHARS} == MAX_TEXT_CHARS
    window = request["properties"]["window"]
    assert window["examples"] == list(EXAMPLES)
    assert (window["anyOf"][1]["minItems"], window["anyOf"][1]["maxItems"]) == (MIN_WINDOWS, MAX_WINDOWS)
    assert find_schema(("/api/ledger", "get"), "limit")["maximum"] == MAX_PAGE_CHARGES
    assert find_schema(("/api/ledger/entries", "get"), "limit")["maximum"] == MAX_PAGE_ENTRIES
    assert find_schema(release, "limit")["maximum"] == MAX_PAGE_ROWS
    assert find_schema(release, "step")["maximum"] == MAX_STEP_TICKS
    assert find_schema(release, "format")["enum"] == list(FORMATS)
    assert set(find_schema(release, "shape")["enum"]) == {shape for some in FORMAT_SHAPES.values() for shape in some}
    assert find_schema(("/api/events", "post"), "Batch-Key")["pattern"] == f"^{KEY_PATTERN.pattern}$"
    assert find_schema(("/api/reports", "post"), "Batch-Key")["pattern"] == f"^{ANONYMOUS_KEY_PATTERN.pattern}$"
    folder = load_openapi()["components"]["schemas"]["IntrusionRequest"]["properties"]["folder"]
    assert folder["pattern"] == f"^{FOLDER_NAME_PATTERN.pattern}$"


def test_every_operation_has_role_and_error_statuses() -> None:
    for details in OPERATIONS.values():
        assert details["summary"]
        assert details["tags"][0] in {"anybody", "readers", "senders", "analysts", "curators"}
        assert {"401", "403", "429"} <= set(details["responses"])


def find_schema_with_components(name: str) -> dict[str, Any]:
    """A schema that can be validated by itself."""
    components = load_openapi()["components"]
    return {**components["schemas"][name], "components": components}


def test_release_request_has_keys_of_pipeline_file(house: House) -> None:
    schema = find_schema_with_components("ReleaseRequest")
    assert set(schema["properties"]) == set(RELEASE_KEYS)
    body = {"name": "m", "sql": "SELECT COUNT(*) FROM visits", "epsilon": 0.1, "expected_events": 5, "horizon": "1h"}
    for mechanism in ("Binary", {"name": "Kary", "branching": 4}):
        requested = body | {"mechanism": mechanism}
        jsonschema_rs.validate(schema, requested)
        assert house.client("analyst").post("/api/plan", json=requested).json()["release"] is not None


def test_listed_release_matches_its_schema(house: House) -> None:
    schema = find_schema_with_components("Release")
    listed, *_ = house.client("reader").get("/api/releases").json()["releases"]  # ad hoc ones follow
    assert set(listed) == set(schema["required"])
    jsonschema_rs.validate(schema, listed | {"places": None, "discovered": True, "delta": "1/1000"})


def test_served_document_is_the_same_for_every_stream(house: House) -> None:
    assert house.client().get("/api/openapi.json").json() == load_openapi()


def test_twin_with_undocumented_status_is_caught(house: House) -> None:
    """A broken twin: a route whose status is not in the document."""

    async def broken(request: Any) -> Response:
        return JSONResponse({"state": "fine"}, 418)

    house.app.router.routes.insert(0, Route("/healthz", broken))
    try:
        schema = schemathesis.openapi.from_asgi("/api/openapi.json", house.app)
        with pytest.raises(FailureGroup, match="Undocumented status code"):
            schema["/healthz"]["get"].Case().call_and_validate(checks=CHECKS)
    finally:
        del house.app.router.routes[0]
