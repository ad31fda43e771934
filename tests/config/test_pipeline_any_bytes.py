"""Every content of a pipeline file is read or refused in one line."""

import copy
import tomllib
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamgauge.config.pipeline_file import PipelineFileError, parse_pipeline, read_pipeline
from tests.support.clinic_file import CLINIC, EVERYTHING, at, path_in, places, refusal, said, written


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the file must have a [stream] table, got an empty file"),
        (" \n\n", "the file must have a [stream] table, got an empty file"),
        ("# nothing", "stream must be a table, got nothing"),
        ("[stream]\nname = 'a'\ntick 5m\n", "line 3 must be TOML: expected '=' after a key in a key/value pair"),
        ("[stream]\nname = 'a'\nname = 'b'\n", "line 3 must be TOML: cannot overwrite a value"),
        ("[stream", "the last line must be TOML: "),
        ('a = "\x00"', "line 1 must be TOML: illegal character '\\x00'"),
        (b"\xff\xfe[stream]", "the file must be text in UTF-8, got other bytes"),
        ("x = 1e9999999999999999999999", "the file must have numbers of bearable length"),
        ("x = " + "1" * 5000, "the file must have numbers of bearable length"),
        ("x = " + "[" * 100_000, "the file must not be nested so deeply"),
        ("x = 0x" + "f" * 50_000, "unknown key x"),
        ("stream = 1", "stream must be a table, got 1"),
        ("stream = 2026-01-05", "stream must be a table, got 2026-01-05"),
    ],
)
def test_invalid_toml_is_refused_with_its_line(tmp_path: Path, text: str | bytes, words: str) -> None:
    assert refusal(lambda: written(tmp_path, text)).startswith(words)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    path = path_in(tmp_path)
    assert refusal(lambda: read_pipeline(path)) == "the file must be there, got nothing of that name"
    path.mkdir()
    assert refusal(lambda: read_pipeline(path)) == "the file must be there, got a folder"
    with pytest.raises(PipelineFileError, match=r"^a\\u0000b: the file must be "):
        read_pipeline(tmp_path / "a\0b")
    with pytest.raises(PipelineFileError, match=r"^a+: the file must be one that can be read"):
        read_pipeline(tmp_path / ("a" * 300))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=200)
@given(st.binary(max_size=80) | st.text("[]{}=.\"'#\n abstream019-:T", max_size=80))
def test_any_bytes_are_a_pipeline_or_refused_in_one_line(tmp_path: Path, data: bytes | str) -> None:
    refusal(lambda: written(tmp_path, data))


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=9)
    | st.datetimes()
    | st.dates()
    | st.decimals()
    | st.sampled_from(["5m", "1/3", "-", "a.csv", "event", "each", "auto", "end", "\ud800", "a\0b", "1" * 99]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=400)
@given(st.lists(st.tuples(st.sampled_from(list(places(EVERYTHING))), anything), min_size=1, max_size=2))
def test_any_tables_are_a_pipeline_or_refused_in_one_line(
    tmp_path: Path, changes: list[tuple[tuple[Any, ...], object]]
) -> None:
    top = copy.deepcopy(EVERYTHING)
    for place, value in changes:
        try:
            at(top, place[:-1])[place[-1]] = value
        except (KeyError, TypeError, IndexError):
            continue
    text = said(lambda: parse_pipeline(top, path_in(tmp_path)))
    assert text == "" or (text.startswith("clinic.toml: ") and len(text.splitlines()) == 1)


@given(st.lists(st.sampled_from(CLINIC.splitlines()), max_size=25), st.integers(0, len(CLINIC)), st.characters())
def test_a_file_cut_and_spoilt_anywhere_is_read_or_refused(lines: list[str], place: int, sign: str) -> None:
    for text in ("\n".join(lines), CLINIC[:place], CLINIC[:place] + sign + CLINIC[place + 1 :]):
        try:
            spoilt = tomllib.loads(text, parse_float=Decimal)
        except tomllib.TOMLDecodeError:
            continue
        assert len(said(lambda: parse_pipeline(spoilt, Path("clinic.toml"))).splitlines()) <= 1  # noqa: B023
