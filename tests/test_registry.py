"""Registries: built-in names, packages that are allowed, and refusals."""

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from streamgauge.registry import Registry, RegistryError, check_installed
from tests.support.packages import write_package

GROUP = "streamgauge.trials"
TRIALS: Registry[object] = Registry("trial", GROUP, {"ordered": "collections:OrderedDict", "gone": "not_there:x"})

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    made: set[str] = set()

    def install(name: str, names: Mapping[str, str], source: str = "def make(): return 'made'\n") -> None:
        module = name.replace("-", "_")
        entries = {GROUP: {key: f"{module}:{value}" for key, value in names.items()}}
        made.add(module)
        monkeypatch.syspath_prepend(str(write_package(tmp_path / name, name, {module: source}, entries)))

    yield install
    for module in made:
        sys.modules.pop(module, None)


def test_built_in_factories_are_imported_when_used() -> None:
    assert TRIALS.names() == ("ordered", "gone")
    assert TRIALS.load("ordered").__name__ == "OrderedDict"  # type: ignore[attr-defined]


def test_allowed_package_provides_a_factory(install: Install) -> None:
    install("sg-trial", {"probe": "make"})
    assert TRIALS.names(["SG_trial"]) == ("ordered", "gone", "probe")
    assert TRIALS.load("probe", ["SG_trial"])() == "made"  # type: ignore[operator]
    assert set(TRIALS.load_outside(["sg-trial"])) == {"probe"}


def test_package_that_is_not_allowed_is_never_imported(install: Install) -> None:
    install("sg-trial", {"probe": "make"}, "raise RuntimeError('imported')\n")
    assert TRIALS.names() == ("ordered", "gone")
    with pytest.raises(RegistryError, match=r'which is not allowed: add \[plugins\] allow = \["sg-trial"\]'):
        TRIALS.load("probe", ["another"])
    assert "sg_trial" not in sys.modules


def test_unknown_name_lists_the_known_ones(install: Install) -> None:
    install("sg-trial", {"probe": "make"})
    with pytest.raises(RegistryError, match='must be one of "ordered", "gone", "probe", got "prob"'):
        TRIALS.load("prob", ["sg-trial"])


def test_two_packages_of_one_name_are_refused(install: Install) -> None:
    install("sg-one", {"probe": "make"})
    install("sg-two", {"probe": "make"})
    with pytest.raises(RegistryError, match="must come from one package, got sg-one and sg-two: allow one"):
        TRIALS.load("probe", ["sg-one", "sg-two"])
    assert TRIALS.load("probe", ["sg-one"])


def test_built_in_name_cannot_be_replaced(install: Install) -> None:
    install("sg-trial", {"ordered": "make"})
    with pytest.raises(RegistryError, match='sg-trial must not replace the built-in trial "ordered"'):
        TRIALS.names(["sg-trial"])
    assert TRIALS.load("ordered").__name__ == "OrderedDict"  # type: ignore[attr-defined]


@pytest.mark.parametrize("source", ["import not_installed_at_all\n", "x = 1\n"])
def test_package_that_cannot_be_imported_is_one_line(install: Install, source: str) -> None:
    install("sg-trial", {"probe": "make"}, source)
    with pytest.raises(RegistryError, match='trial "probe" of package sg-trial could not be imported') as raised:
        TRIALS.load("probe", ["sg-trial"])
    assert "\n" not in str(raised.value)


def test_allowed_package_must_be_installed(install: Install) -> None:
    install("sg-trial", {"probe": "make"})
    check_installed(["sg-trial"])
    for name in ("sg-trail", ""):
        with pytest.raises(RegistryError, match=f'must name installed packages, got "{name}"'):
            check_installed([name])
