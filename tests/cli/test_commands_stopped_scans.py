"""A run that is stopped while it reads a large source ends with the usual message and publishes nothing."""

import os
import signal
import time

import pytest

from tests.support.clinics import TOML, clinic, invoke, records, started

SECONDS = 120
FILES = 80  # links to one file


@pytest.fixture
def large(tmp_path):
    """A clinic with a source that takes seconds to read."""
    file = clinic(tmp_path, TOML.replace('"visits.jsonl"', '"visits"').replace("mode", 'format = "jsonl"\nmode'))
    (tmp_path / "visits").mkdir()
    first = tmp_path / "visits" / "000.jsonl"
    first.write_text("".join(f"{line}\n" for line in records(1000)) * 100)
    for number in range(1, FILES):
        os.link(first, first.with_name(f"{number:03d}.jsonl"))
    return file


@pytest.mark.one_of_each
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=str)
def test_signal_ends_scan_before_anything_is_published(number, large):
    child = started("run", large)
    try:
        for _ in range(SECONDS * 50):
            if (large.with_suffix(".streamgauge") / "store.db").exists():
                break
            time.sleep(0.02)
        time.sleep(0.3)
        child.send_signal(number)
        out, err = child.communicate(timeout=SECONDS)
    finally:
        child.kill()
        child.communicate()
    assert (child.returncode, out) == (130, "")
    assert err.splitlines()[-1] == "stopped before the first tick; run again to resume"
    assert invoke("ledger", large).exit_code == 0


def test_too_little_memory_is_refused_before_store_is_created(tmp_path):
    file = clinic(tmp_path)
    found = invoke("run", file, "--memory", "20MB")
    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr.splitlines()[-1] == "streamgauge: clinic.toml: memory must be at least 50MB, got 20MB"
    assert not (file.with_suffix(".streamgauge") / "store.db").exists()
