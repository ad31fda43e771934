"""`streamgauge.audit` loads lazily and has every name in `__all__`."""

import subprocess
import sys

import pytest

import streamgauge.audit as room


def test_every_listed_name_can_be_imported() -> None:
    assert all(getattr(room, name) is not None for name in room.__all__)
    assert dir(room) == sorted(room.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        room.nothing  # noqa: B018 - attribute access is under test


def test_audit_is_an_attribute_of_the_package() -> None:
    code = "import streamgauge as sg; print(sg.audit.Verdict.__name__, 'audit' in dir(sg))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["Verdict", "True"]


def test_import_of_the_package_loads_nothing_heavy() -> None:
    code = "import sys, streamgauge.audit; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"scipy", "numpy"} & {name.partition(".")[0] for name in loaded.stdout.split()}
