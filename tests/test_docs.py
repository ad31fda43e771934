"""Laws of the pages: files and names exist, and tables match the code."""

import re
from pathlib import Path

import draw_adaptive  # docs is on the path of tests, see pyproject.toml
import draw_localdp
import draw_panprivate
import draw_pictures
import error_table
import pytest

from tests.support.catalogue import exported

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(DOCS.glob("*.md"))
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_and_picture_leads_to_a_file(page: Path) -> None:
    links = [link for link in LINK.findall(page.read_text()) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_picture_is_drawn_and_shown() -> None:
    scripts = (draw_pictures, draw_adaptive, draw_localdp, draw_panprivate)
    drawn = {f"pictures/{name}.svg" for script in scripts for name in script.pictures()}
    names = ("continual.md", "adaptive.md", "localdp.md", "panprivate.md")
    pages = "".join((DOCS / name).read_text() for name in names)
    shown = {link for link in LINK.findall(pages) if link.endswith(".svg")}
    assert drawn == shown == {f"pictures/{file.name}" for file in (DOCS / "pictures").glob("*.svg")}


def test_every_mechanism_has_a_picture_and_a_heading() -> None:
    assert set(exported()) == draw_pictures.drawn_mechanisms()
    headings = " ".join(re.findall(r"^### (.*)$", (DOCS / "continual.md").read_text(), re.MULTILINE))
    assert [cls.__name__ for cls in exported() if cls.__name__ not in headings] == []


def test_picture_bars_match_the_p_sums_of_a_release() -> None:
    """Items under the bars in colour add up to the count that the picture is about."""
    for name, scheme in draw_pictures.SCHEMES.items():
        if name in {"refined", "segments", "two_part"}:
            continue  # weighed nodes; draws, which are no p-sums; blocks of noise
        covered = [0.0] * (draw_pictures.TICKS + 1)
        for bar in draw_pictures.bars(scheme):
            for item in range(bar.first, min(bar.last, draw_pictures.TICKS) + 1):
                covered[item] += bar.weight
        spoken_of = range(max(1, scheme.tick - scheme.window + 1), scheme.tick + 1)
        assert [item for item, weight in enumerate(covered) if weight] == list(spoken_of), name


def test_error_table_matches_the_predicted_errors() -> None:
    page = (DOCS / "continual.md").read_text()
    table = page.split(error_table.BEGIN)[1].split(error_table.END)[0]
    assert table == "".join(error_table.lines()), "run: python docs/error_table.py"
