"""The room opens when somebody looks into it, and has all that it says."""

import subprocess
import sys

import pytest

import streamgauge.audit as room


def test_all_that_is_listed_is_there() -> None:
    assert all(getattr(room, name) is not None for name in room.__all__)
    assert dir(room) == sorted(room.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        room.nothing  # noqa: B018 - that is the test


def test_it_is_a_room_of_the_package() -> None:
    code = "import streamgauge as sg; print(sg.audit.Verdict.__name__, 'audit' in dir(sg))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["Verdict", "True"]


def test_import_of_the_package_loads_nothing_heavy() -> None:
    code = "import sys, streamgauge.audit; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"scipy", "numpy"} & {name.partition(".")[0] for name in loaded.stdout.split()}
