"""Keys in commands: read once, reported when new, and named so that the name can be pasted."""

import json
import tomllib

import pytest

from streamgauge.store.keys import load_key
from tests.support.clinics import TOML, clinic, invoke, line_of

DIGITS = "0123456789abcdef" * 4
HOMELESS = TOML.replace('key = "file:clinic.key"\n', "")


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home" / ".config" / "streamgauge" / "clinic.key"


def test_key_command_is_executed_once_per_run(tmp_path):
    file = clinic(tmp_path, TOML.replace("file:clinic.key", "command:sh key.sh"))
    (tmp_path / "key.sh").write_text(f"echo asked >> asked\necho {DIGITS}\n")
    for times in (1, 2):
        assert invoke("run", file).exit_code == 0
        assert (tmp_path / "asked").read_text().count("asked") == times


def test_first_run_reports_path_of_new_key_once(tmp_path, home):
    file = clinic(tmp_path, HOMELESS)
    first, second = invoke("run", file), invoke("run", file)
    assert f"a new key is in {home}: store a copy of it elsewhere" in first.stderr
    assert f"the key {home} is on the same file system" in first.stderr
    assert "a new key" not in second.stderr
    assert f"a new key is in {home}" in (tmp_path / "clinic.streamgauge" / "curator.log").read_text()


def test_new_key_is_reported_in_json_but_not_when_quiet(tmp_path, home):
    events = [json.loads(line) for line in invoke("run", clinic(tmp_path, HOMELESS), "--json").stderr.splitlines()]
    assert [event["event"] for event in events] == ["new_key", "warning", "progress", "ended"]
    assert events[0]["path"] == str(home)
    home.unlink()
    assert invoke("run", clinic(tmp_path / "quiet", HOMELESS), "--quiet").stderr == ""


def test_refused_first_run_reports_path_of_new_key(tmp_path, home):
    found = invoke("run", clinic(tmp_path, HOMELESS.replace("epsilon = 0.5", "epsilon = 5")))
    assert found.exit_code == 2
    assert f"a new key is in {home}" in found.stderr


@pytest.mark.parametrize("toml", [TOML, HOMELESS], ids=["named", "not named"])
def test_lost_key_of_existing_store_is_not_recreated(tmp_path, home, toml):
    file = clinic(tmp_path, toml)
    key = home if toml == HOMELESS else tmp_path / "clinic.key"
    assert invoke("run", file, "--quiet").exit_code == 0
    key.unlink()
    line = line_of(invoke("run", file))
    assert f"must be the one that the store in {tmp_path}/clinic.streamgauge was written under" in line
    assert f"got nothing at {key}: restore it" in line
    assert "key create" not in line
    assert not key.exists()


def test_missing_key_without_store_suggests_key_create(tmp_path):
    file = clinic(tmp_path)
    (tmp_path / "clinic.key").unlink()
    assert "streamgauge key create makes one" in line_of(invoke("run", file))


@pytest.mark.parametrize("name", ["sub/k", 'it\'s a "key" \\ ü'])
def test_new_key_is_printed_as_valid_toml_setting(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    found = invoke("key", "create", name)
    assert f"a new key is in {tmp_path / name}" in found.stderr
    (line,) = [line for line in found.stderr.splitlines() if "name it in the pipeline file: " in line]
    named = tomllib.loads(line.partition(": ")[2])["key"]
    assert load_key(named, tmp_path / "elsewhere").path == tmp_path / name
