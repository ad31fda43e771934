"""Check the figures of the house: folders, names, docstrings, tests. `make check` runs it.

    python -m tools.house [--print]

A figure above its bar is an error. Lower a bar when the code gets better. Raise the first two for new features only.
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tools.test_internals import count_internals

SRC = Path(__file__).parents[1] / "src" / "streamgauge"
TESTS = Path(__file__).parents[1] / "tests"
MAX_FOLDER_MODULES = 20
BARS = {  # figure: the most it may be
    "modules": 510,
    "code lines": 56_378,
    "folders of more than 20 modules": 0,
    "class names defined twice": 0,
    "functions named x_of": 0,
    "exceptions that do not end in Error": 0,
    "definitions named by a participle or a mood word": 0,
    "docstrings that begin with a wh-word, %": 0.5,
    "ruled-out words in docstrings": 2,
    "docstring sentences of more than 30 words, %": 2.0,
    "patches in tests": 183,
    "private accesses in tests": 75,
    "names of tests with more than ten words": 0,
    "docstrings of tests that begin with a wh-word": 0,
    "ruled-out words in docstrings of tests": 0,
}
WH_WORD = re.compile(r"(what|who|whether|where|why|how|which|when|whom|whatever|whoever)\b", re.IGNORECASE)
RULED_OUT = re.compile(r"\b(told|heard|nobody|whoever|lets? go|set down|taken up|anew|dearest)\b", re.IGNORECASE)
MOOD_WORD = re.compile(
    r"told|heard|kept|taken|asked|held|noted|seen|known|found|made|left|gone|given|drawn|begun|shown|cut|"
    r"departed|emptied|leaving|opened|ended|joined|pinned|located|looked|judged|refused|abandoned|sealed|"
    r"founded|handed|overheard|happened|witnessed|gathered|admitted|worded|spelled|divided|parted|folded|"
    r"within|beside|over|under|again|anew|apart|together|alone|ahead|behind|before|after|about|between|"
    r"beyond|until|once|way|doors|board|nothing|nobody|none|answered|due|pressing|watching|asking|judging|"
    r"weighing|chasing|holding|driven|seized|stated|tuned|dearest|wish|turn|door|room|book"
)
MAX_SENTENCE_WORDS = 30
MAX_NAME_WORDS = 10
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Figures:
    """Counts over all modules."""

    modules: int = 0
    code_lines: int = 0
    folders: Counter[Path] = field(default_factory=Counter)
    classes: Counter[str] = field(default_factory=Counter)
    of_functions: int = 0
    unnamed_errors: int = 0
    mood_names: int = 0
    docstrings: int = 0
    wh_docstrings: int = 0
    ruled_out_words: int = 0
    sentences: int = 0
    long_sentences: int = 0

    def add(self, path: Path) -> None:
        """Count one module."""
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source)
        self.modules += 1
        self.folders[path.parent] += path.name != "__init__.py"
        self.mood_names += bool(MOOD_WORD.fullmatch(path.stem))
        self.code_lines += count_code_lines(source, tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self.of_functions += node.name.strip("_").endswith("_of")
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self.mood_names += bool(MOOD_WORD.fullmatch(node.name.strip("_").lower()))
            if isinstance(node, ast.ClassDef):
                self.classes[node.name] += node.name != "State"
                self.unnamed_errors += is_error(node) and not node.name.endswith(("Error", "Warning"))
        self.add_docstrings(tree)

    def add_docstrings(self, tree: ast.Module) -> None:
        for node in ast.walk(tree):
            if isinstance(node, Documented) and (text := ast.get_docstring(node)):
                self.add_docstring(text)

    def add_docstring(self, text: str) -> None:
        self.docstrings += 1
        self.wh_docstrings += bool(WH_WORD.match(text))
        prose = re.sub(r">>>.*|^ {4,}.*$", "", text, flags=re.MULTILINE).replace("\n", " ")
        self.ruled_out_words += len(RULED_OUT.findall(prose))
        lengths = [len(sentence.split()) for sentence in re.split(r"(?<=[.!?])\s+", prose)]
        self.sentences += len(lengths)
        self.long_sentences += sum(length > MAX_SENTENCE_WORDS for length in lengths)

    def to_dict(self) -> dict[str, float]:
        """Return the figures by the names of their bars."""
        return {
            "modules": self.modules,
            "code lines": self.code_lines,
            "folders of more than 20 modules": sum(n > MAX_FOLDER_MODULES for n in self.folders.values()),
            "class names defined twice": sum(n > 1 for n in self.classes.values()),
            "functions named x_of": self.of_functions,
            "exceptions that do not end in Error": self.unnamed_errors,
            "definitions named by a participle or a mood word": self.mood_names,
            "ruled-out words in docstrings": self.ruled_out_words,
            "docstrings that begin with a wh-word, %": 100 * self.wh_docstrings / max(1, self.docstrings),
            "docstring sentences of more than 30 words, %": 100 * self.long_sentences / max(1, self.sentences),
        }


def count_code_lines(source: str, tree: ast.Module) -> int:
    """Count lines that are neither blank, comment nor docstring."""
    documented = set(iterate_docstring_lines(tree))
    lines = enumerate(source.splitlines(), 1)
    return sum(i not in documented and not re.match(r"\s*(#|$)", line) for i, line in lines)


def iterate_docstring_lines(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, Documented) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            yield from range(first.lineno, (first.end_lineno or first.lineno) + 1)


def is_error(node: ast.ClassDef) -> bool:
    names = [base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "") for base in node.bases]
    return any(name.endswith(("Error", "Exception", "Warning")) for name in names)


def main() -> None:
    figures, tests = Figures(), Figures()
    for path in sorted(SRC.rglob("*.py")):
        figures.add(path)
    internals = sum((count_internals(path.read_text(encoding="utf-8")) for path in TESTS.rglob("*.py")), Counter())
    found = figures.to_dict()
    found |= {"patches in tests": internals["patches"], "private accesses in tests": internals["private"]}
    names = [
        name for path in TESTS.rglob("test_*.py") for name in re.findall(r"def test_(\w+)", path.read_text("utf-8"))
    ]
    found["names of tests with more than ten words"] = sum(len(name.split("_")) > MAX_NAME_WORDS for name in names)
    for folder in (TESTS, TESTS.parent / "benchmarks", TESTS.parent / "tools"):
        for path in folder.rglob("*.py"):
            tests.add_docstrings(ast.parse(path.read_text(encoding="utf-8")))
    found["docstrings of tests that begin with a wh-word"] = tests.wh_docstrings
    found["ruled-out words in docstrings of tests"] = tests.ruled_out_words
    over = [name for name, bar in BARS.items() if found[name] > bar]
    for name, bar in BARS.items():
        if name in over or "--print" in sys.argv:
            print(f"{'OVER' if name in over else 'ok  '}  {name}: {found[name]:,.6g} (bar {bar:,.6g})")
    sys.exit(bool(over))


if __name__ == "__main__":
    main()
