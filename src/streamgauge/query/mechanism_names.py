"""`mechanism` of a release: "auto", a name, or a table with a name and settings of that mechanism.

Settings are those of the claim which a release does not decide by itself: { name = "Kary", branching = 13 }.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from fractions import Fraction
from typing import Any

from streamgauge import continual
from streamgauge.query.toml_keys import Rule, Table
from streamgauge.query.toml_rules import FARTHEST, exactly

AUTO = "auto"
DECIDED = {"loss", "horizon", "bound", "pan_private", "unit", "window", "decay", "half_life", "inner"}

Chosen = tuple[str, dict[str, int | bool | Fraction]]


def settings_by_mechanism() -> dict[str, tuple[str, ...]]:
    """The mechanisms that can be asked for by name, and what can be set of each."""
    found: dict[str, Any] = {name: getattr(continual, name) for name in continual.__all__}
    return {
        name: tuple(field.name for field in fields(claim) if field.name not in DECIDED)
        for name, claim in found.items()
        if is_dataclass(claim) and hasattr(claim, "LOSSES")
    }


def mechanism_of(release: Table) -> Chosen:
    """The mechanism's name and its settings."""
    value = release.entries.get("mechanism", AUTO)
    known = settings_by_mechanism()
    rule = Rule('"auto" or the name of a mechanism', lambda v: _known(v, known), (AUTO, *known))
    if not isinstance(value, Mapping):
        return release.optional("mechanism", rule, AUTO), {}
    name = Table.open(release.at("mechanism"), value).required("name", rule)
    table = release.table("mechanism", ("name", *known.get(name, ())))
    return name, {key: table.required(key, SETTING) for key in table if key != "name"}


def _known(value: Any, known: Mapping[str, object]) -> str | None:
    return value if isinstance(value, str) and (value == AUTO or value in known) else None


def _setting(value: Any) -> int | bool | Fraction | None:
    if isinstance(value, bool):
        return value
    number = exactly(value)
    if number is None or abs(number) > FARTHEST:
        return None
    return int(number) if number.denominator == 1 else number


SETTING: Rule[int | bool | Fraction] = Rule("a number, true or false", _setting)
