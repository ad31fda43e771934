"""Packages that a test installs for a while: a module, and the metadata with its entry points."""

from collections.abc import Mapping
from pathlib import Path


def write_package(
    folder: Path, name: str, modules: Mapping[str, str], entries: Mapping[str, Mapping[str, str]]
) -> Path:
    """Write a package as an installer leaves it; return the folder, which belongs on the import path.

    Args:
        modules: Source by module name.
        entries: "module:attribute" by entry-point name, by group.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for module, source in modules.items():
        (folder / f"{module}.py").write_text(source)
    metadata = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    groups = {group: "\n".join(map(" = ".join, names.items())) for group, names in entries.items()}
    (metadata / "entry_points.txt").write_text("".join(f"[{group}]\n{lines}\n\n" for group, lines in groups.items()))
    return folder
