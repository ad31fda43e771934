"""Registries of built-in and third-party factories by name.

Built-in factories are "module:attribute" texts, imported when they are first used. Other packages provide
more as entry points of the registry's group:

    [project.entry-points."streamgauge.sources"]
    mqtt = "streamgauge_mqtt:KIND"

Such code runs inside the curator's process and may see raw events. It is used only if the caller allows its
package, by the name that it is installed under. The name of the entry point is not enough, because any installed
package can claim it. The version of a package is not checked. The curator pins it at installation.

Packages that are not allowed are never imported, and cannot change the meaning of an allowed name. An allowed
package must not replace a built-in name, and two allowed packages must not provide the same name.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Allow = Collection[str] | None


class RegistryError(ValueError):
    """A name without a factory, or a package that must not or cannot provide it."""


def normalise_package(name: str) -> str:
    """Return a package name in the normalised spelling of package indexes.

    >>> normalise_package("Streamgauge_MQTT")
    'streamgauge-mqtt'
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def check_installed(packages: Collection[str]) -> None:
    """Reject a package that is not installed."""
    for package in packages:
        try:
            distribution(package)
        except (PackageNotFoundError, ValueError):
            raise RegistryError(f'must name installed packages, got "{package}": install it, or remove it') from None


@dataclass(frozen=True)
class Registry(Generic[T]):
    """Factories of one kind by name, or by URL scheme."""

    kind: str  # noun for messages, such as "source"
    group: str  # entry-point group
    built_in: Mapping[str, str] = field(default_factory=dict)  # "module:attribute" by name

    def names(self, allow: Allow = ()) -> tuple[str, ...]:
        """Return all names: built-in ones in their order, then those of allowed packages."""
        return (*self.built_in, *sorted(self._find_allowed(allow)))

    def load(self, name: str, allow: Allow = ()) -> T:
        """Return the factory of a name.

        Args:
            allow: The packages whose entry points may be used; None for all that are installed.
        """
        if (target := self.built_in.get(name)) is not None:
            module, _, attribute = target.partition(":")
            found: T = getattr(import_module(module), attribute)
            return found
        entry = self._find_allowed(allow).get(name)
        if entry is None:
            raise RegistryError(self._describe_missing(name, allow))
        return self._load_entry(entry)

    def load_outside(self, allow: Allow) -> dict[str, T]:
        """Return the factories of allowed packages by name."""
        return {name: self._load_entry(entry) for name, entry in sorted(self._find_allowed(allow).items())}

    def _load_entry(self, entry: EntryPoint) -> T:
        try:
            found: T = entry.load()
        except (ImportError, AttributeError) as error:
            raise RegistryError(
                f'{self.kind} "{entry.name}" of package {_find_package(entry)} could not be imported: {error}'
            ) from None
        return found

    def _find_allowed(self, allow: Allow) -> dict[str, EntryPoint]:
        if allow is not None and not allow:
            return {}
        found: dict[str, EntryPoint] = {}
        names = None if allow is None else set(map(normalise_package, allow))
        for entry in self._list_entries():
            package = _find_package(entry)
            if names is not None and package not in names:
                continue
            if entry.name in self.built_in:
                raise RegistryError(f'package {package} must not replace the built-in {self.kind} "{entry.name}"')
            if entry.name in found and found[entry.name] != entry:
                packages = " and ".join(sorted({package, _find_package(found[entry.name])}))
                raise RegistryError(
                    f'{self.kind} "{entry.name}" must come from one package, got {packages}: allow one of them'
                )
            found[entry.name] = entry
        return found

    def _describe_missing(self, name: str, allow: Allow) -> str:
        packages = sorted({_find_package(entry) for entry in self._list_entries() if entry.name == name})
        if packages:
            return (
                f'{self.kind} "{name}" comes from the package {" or ".join(packages)}, which is not allowed: '
                f'add [plugins] allow = ["{packages[0]}"], since its code may see raw events'
            )
        known = ", ".join(f'"{each}"' for each in self.names(allow))
        return f'{self.kind} must be one of {known or "none"}, got "{name}", which no installed package provides'

    def _list_entries(self) -> Iterator[EntryPoint]:
        """Return the entry points, each once even if a package is on the path twice."""
        seen: set[tuple[Any, ...]] = set()
        for entry in entry_points(group=self.group):
            key = (_find_package(entry), entry.name, entry.value)
            if key not in seen:
                seen.add(key)
                yield entry


def _find_package(entry: EntryPoint) -> str:
    return normalise_package(entry.dist.name) if entry.dist is not None else ""
