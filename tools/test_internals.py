"""Count tests that reach into internals: patches and private attributes, by file.

`python -m tools.test_internals` prints the counts. A private attribute of the test's own classes does not count.
"""

import ast
import sys
from collections import Counter
from pathlib import Path

PATCHES = {"setattr", "delattr", "__setattr__"}
PUBLIC_NAMES = {"_exit", "_getframe", "_repr_html_", "_replace", "_asdict", "_fields"}
SHOWN_FILES = 30


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in PUBLIC_NAMES


def count_internals(source: str) -> Counter[str]:
    """Count patches by any means, and private attributes of anything but `self` and `cls`."""
    tree, found = ast.parse(source), Counter[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            found["patches"] += node.attr in PATCHES or (
                node.attr in {"patch", "object"} and owner in {"mock", "patch"}
            )
            found["patches"] += node.attr == "__dict__" and owner not in {"self", "cls"}
            found["private"] += is_private(node.attr) and owner not in {"self", "cls"}
        elif isinstance(node, ast.ImportFrom):
            found["private"] += sum(is_private(name.name) for name in node.names)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"getattr", "setattr"}:
            name = node.args[1] if len(node.args) > 1 else None
            found["private"] += isinstance(name, ast.Constant) and is_private(str(name.value))
    return found


def main(folder: str = "tests") -> None:
    counts = {path: count_internals(path.read_text()) for path in sorted(Path(folder).rglob("*.py"))}
    total = sum(counts.values(), Counter[str]())
    print(f"{total['patches']} patches, {total['private']} private accesses")
    for path, found in sorted(counts.items(), key=lambda each: -each[1].total())[:SHOWN_FILES]:
        print(f"{found['patches']:>6}{found['private']:>6}  {path}")


if __name__ == "__main__":
    main(*sys.argv[1:])
