"""Start options of the curator: to end an ended release is no error, and a proxy must be an address range."""

import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from streamgauge.cli.errors import BadArgumentError
from streamgauge.cli.runs.monitor import select_end_options
from streamgauge.cli.runs.server import CLEARTEXT_WARNING, PROXY_BYPASS_WARNING, find_danger
from streamgauge.cli.serve import parse_proxies
from streamgauge.config.pipeline_file import read_pipeline
from streamgauge.runtime.adhoc.releases import AdHocRelease, parse_adhoc_release
from streamgauge.runtime.pipeline import Pipeline
from streamgauge.store.keys import create_key
from tests.support.clinics import TOML, records
from tests.support.pipelines import run

MORE = {"name": "more", "sql": "SELECT COUNT(*) FROM visits", "window": "each", "epsilon": 0.125}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """A pipeline with an ended ad hoc release."""
    folder = tmp_path_factory.mktemp("ended")
    create_key(folder / "clinic.key")
    (folder / "visits.jsonl").write_text("".join(f"{line}\n" for line in records(50)))
    (folder / "clinic.toml").write_text(TOML)
    found = Pipeline(read_pipeline(folder / "clinic.toml"))
    run(found, adhoc_releases=[AdHocRelease(parse_adhoc_release(MORE, found.file.stream), "ana")])
    found.run(end_releases=("more",))
    return found


def details(made: Pipeline, *names: str, cut: tuple[str, ...] = ()) -> tuple[dict[str, Any], list[str]]:
    """Return the releases that are left to end, and the lines for the curator."""
    said: list[str] = []
    watching: Any = SimpleNamespace(file=made.file, print_note=said.append)
    return select_end_options(watching, names, cut), said


def test_ending_ended_release_is_reported_and_run_starts(made: Pipeline) -> None:
    left, said = details(made, "more", "fever")
    assert left == {"end_releases": ("fever",), "force_end_releases": ()}
    assert said == ["release more has ended already, so there is nothing to end"]
    made.run(**details(made, "more")[0])


def test_ending_unknown_release_is_refused_by_run(made: Pipeline) -> None:
    left, said = details(made, "mroe", cut=("fever",))
    assert (left, said) == ({"end_releases": ("mroe",), "force_end_releases": ("fever",)}, [])
    for name in ("end_releases", "force_end_releases"):
        with pytest.raises(ValueError, match=r"release .* must be (one that is open|an ad hoc one)"):
            made.run(**{name: left[name]})


def test_draining_release_can_be_force_ended(made: Pipeline) -> None:
    assert details(made, "more", cut=("more",))[0] == {"end_releases": (), "force_end_releases": ("more",)}


@pytest.mark.parametrize("proxy", ["nonsense host", "proxy.example", "*", "10.0.0.7/24", "10.0.0.0/99", ""])
def test_invalid_proxy_address_is_refused(proxy: str) -> None:
    with pytest.raises(BadArgumentError, match=r"^--proxy must be an address, or a range such as 10\.0\.0\.0/24"):
        parse_proxies(["10.0.0.5", proxy])


@pytest.mark.parametrize("proxy", ["0.0.0.0/0", "::/0"])
def test_proxy_range_of_all_addresses_is_refused(proxy: str) -> None:
    with pytest.raises(BadArgumentError, match=r"^--proxy must be a range that excludes some addresses"):
        parse_proxies([proxy])


@pytest.fixture(params=["127.0.0.1", "0.0.0.0"])
def listener(request: pytest.FixtureRequest) -> Iterator[socket.socket]:
    with socket.create_server((request.param, 0)) as found:
        yield found


@pytest.mark.parametrize(
    ("proxies", "danger"),
    [((), CLEARTEXT_WARNING), (("127.0.0.1",), CLEARTEXT_WARNING), (("10.0.0.0/24", "::1"), PROXY_BYPASS_WARNING)],
)
def test_trusted_proxy_does_not_remove_danger_warning(
    listener: socket.socket, proxies: tuple[str, ...], danger: str
) -> None:
    alone = listener.getsockname()[0] == "127.0.0.1"
    assert find_danger(listener, proxies) == (None if alone else danger)
