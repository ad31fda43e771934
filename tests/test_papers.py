"""docs/papers.md names files, classes and mechanisms that exist."""

import re
from functools import reduce
from pathlib import Path

import pytest

import streamgauge as sg
from streamgauge.config.mechanism import build_setting_rules

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "papers.md").read_text()
COLUMNS = ["section", "their name", "ours", "source", "Python", "file", "SQL", "differences"]
ROWS = [
    dict(zip(COLUMNS, [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]], strict=True))
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| section")
]
BUILT_ROWS = [row for row in ROWS if row["ours"] != "not yet"]


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_the_page_has_a_table_for_each_of_five_documents():
    assert PAGE.count("\n## ") == PAGE.count("| section | their name |") == 5
    assert len(ROWS) > 50


@pytest.mark.parametrize("row", BUILT_ROWS, ids=lambda row: f"{row['section']} {row['their name']}")
def test_each_row_names_existing_files_and_classes(row):
    (source,) = quoted(row["source"])
    assert (ROOT / "src" / "streamgauge" / source).is_file()
    for name in quoted(row["Python"]):
        assert name.startswith("sg.")
        assert reduce(getattr, name.split(".")[1:], sg) is not None
    for name in quoted(row["file"]):
        if name[0].isupper():
            assert name in build_setting_rules()


@pytest.mark.parametrize("row", BUILT_ROWS, ids=lambda row: f"{row['section']} {row['their name']}")
def test_each_class_is_defined_in_its_file_or_exported(row):
    (source,) = quoted(row["source"])
    text = (ROOT / "src" / "streamgauge" / source).read_text()
    classes = [name.split(".")[2] for name in quoted(row["Python"]) if name.count(".") >= 2]
    unrelated = {"Mechanism", "Run", "LinearMechanism", "Sum", "TableRun", "Binary", "Grouper", "Pegasus"}
    assert all(re.search(rf"\bclass {name}\b|def {name}\b", text) for name in set(classes) - unrelated)


def test_unbuilt_rows_name_no_file():
    assert all(row["source"] == row["Python"] == "-" for row in ROWS if row["ours"] == "not yet")
