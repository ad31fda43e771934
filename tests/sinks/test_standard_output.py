"""Laws of standard output: the same whole lines as in a file, and a clean end if its reader closes it."""

import io
import json
import os
import sys
from pathlib import Path

import pytest

from streamgauge.config.settings import SinkSettings
from streamgauge.sinks import CsvLines, JsonLines, LineFile, SinkAccessError, StandardOutput, open_sink
from tests.support.examples import writes


def test_printed_lines_equal_lines_of_file(tmp_path: Path) -> None:
    for form in (JsonLines(), CsvLines()):
        out, file = io.BytesIO(), LineFile("releases", tmp_path / type(form).__name__, form)
        printed = StandardOutput(form, out=out)
        assert printed.resume(None) is None
        for write in writes():
            file.write(*write)
            position = printed.write(*write)
        file.close()
        assert out.getvalue() == file.path.read_bytes()
        assert printed.resume(position) is None


def test_sink_writes_to_current_standard_output(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    sink = open_sink(SinkSettings("-", "jsonl"), Path())
    sink.write(*writes()[0])
    assert json.loads(capfdbinary.readouterr().out.splitlines()[0])["tick"] == 1
    assert sink.name == "-"


def test_sink_writes_to_text_only_standard_output_of_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    StandardOutput(JsonLines()).write(*writes()[0])
    assert json.loads(out.getvalue().split("\n")[0])["tick"] == 1


def test_closed_standard_output_is_typed_error_and_closes_silently() -> None:
    reading, writing = os.pipe()
    out = os.fdopen(writing, "wb")
    os.close(reading)
    with pytest.raises(SinkAccessError, match="standard output must stay open, got a reader that closed it"):
        StandardOutput(JsonLines(), out=out).write(*writes()[0])
    out.close()  # flushes the rest to nowhere, without an error


def test_full_disk_behind_standard_output_is_one_line_error() -> None:
    with open("/dev/full", "wb", buffering=0) as out, pytest.raises(SinkAccessError) as failure:
        StandardOutput(JsonLines(), out=out).write(*writes()[0])  # type: ignore[arg-type]  # raw, so that it closes
    assert str(failure.value) == "sink standard output could not be used: No space left on device"
