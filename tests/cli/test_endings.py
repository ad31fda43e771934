"""What a curator says at every start: what has ended is no reason not to; a proxy is somebody's address."""

import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from clinics import TOML, records

from streamgauge.cli.endings import endings
from streamgauge.cli.failures import BadArgument
from streamgauge.cli.serve import proxies_of
from streamgauge.cli.served import IN_THE_CLEAR, PASSED_BY, danger_of
from streamgauge.pipeline.asked import AskedRelease, release_of_json
from streamgauge.pipeline.keys import create_key
from streamgauge.pipeline.pipeline import Pipeline
from streamgauge.query.pipeline_file import read_pipeline

MORE = {"name": "more", "sql": "SELECT COUNT(*) FROM visits", "window": "each", "epsilon": 0.125}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """A pipeline that was asked for a release, which was ended."""
    folder = tmp_path_factory.mktemp("ended")
    create_key(folder / "clinic.key")
    (folder / "visits.jsonl").write_text("".join(f"{line}\n" for line in records(50)))
    (folder / "clinic.toml").write_text(TOML)
    found = Pipeline(read_pipeline(folder / "clinic.toml"))
    found.run(asked=(AskedRelease(release_of_json(MORE, found.file.stream), "ana"),))
    found.run(ended=("more",))
    return found


def told(made: Pipeline, *names: str, cut: tuple[str, ...] = ()) -> tuple[dict[str, Any], list[str]]:
    """What is left to be done, and what the curator is told."""
    said: list[str] = []
    watching: Any = SimpleNamespace(file=made.file, note=said.append)
    return endings(watching, names, cut), said


def test_what_has_ended_is_told_and_is_no_reason_not_to_start(made: Pipeline) -> None:
    left, said = told(made, "more", "fever")
    assert left == {"ended": ("fever",), "cut": ()}
    assert said == ["release more has ended already, so there is nothing to end"]
    made.run(**told(made, "more")[0])


def test_what_was_never_asked_for_is_left_to_the_run_to_refuse(made: Pipeline) -> None:
    left, said = told(made, "mroe", cut=("fever",))
    assert (left, said) == ({"ended": ("mroe",), "cut": ("fever",)}, [])
    for name in ("ended", "cut"):
        with pytest.raises(ValueError, match=r"release .* must be one that"):
            made.run(**{name: left[name]})


def test_what_has_ended_and_runs_on_can_be_cut(made: Pipeline) -> None:
    assert told(made, "more", cut=("more",))[0] == {"ended": (), "cut": ("more",)}


@pytest.mark.parametrize("proxy", ["nonsense host", "proxy.example", "*", "10.0.0.7/24", "10.0.0.0/99", ""])
def test_what_is_no_address_is_no_proxy(proxy: str) -> None:
    with pytest.raises(BadArgument, match=r"^--proxy must be an address, or a range such as 10\.0\.0\.0/24"):
        proxies_of(["10.0.0.5", proxy])


@pytest.mark.parametrize("proxy", ["0.0.0.0/0", "::/0"])
def test_everybody_is_no_proxy(proxy: str) -> None:
    with pytest.raises(BadArgument, match=r"^--proxy must be a range that somebody is outside of"):
        proxies_of([proxy])


@pytest.fixture(params=["127.0.0.1", "0.0.0.0"])
def listener(request: pytest.FixtureRequest) -> Iterator[socket.socket]:
    with socket.create_server((request.param, 0)) as found:
        yield found


@pytest.mark.parametrize(
    ("proxies", "danger"),
    [((), IN_THE_CLEAR), (("127.0.0.1",), IN_THE_CLEAR), (("10.0.0.0/24", "::1"), PASSED_BY)],
)
def test_a_proxy_that_is_believed_takes_no_danger_away(
    listener: socket.socket, proxies: tuple[str, ...], danger: str
) -> None:
    alone = listener.getsockname()[0] == "127.0.0.1"
    assert danger_of(listener, proxies) == (None if alone else danger)
