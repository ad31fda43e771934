"""`mechanism` of a release: "auto", a name, or a table with name and settings.

Settings are those that a release does not determine: { name = "Kary", branching = 13 },
{ name = "Pegasus", smoother = "average" }, { name = "Hybrid", inner = "Binary" }. Words begin with a letter
and exact numbers do not. So the two can be distinguished even if both were written as text.
"""

import re
from collections.abc import Mapping
from dataclasses import Field, fields, is_dataclass
from fractions import Fraction
from functools import cache
from inspect import isabstract
from typing import Any

from streamgauge import adaptive, continual
from streamgauge.config.errors import InvalidReleaseError, PipelineFileError
from streamgauge.config.rules import MAX_EXACT_INT, SWITCH, build_choice_rule, parse_fraction
from streamgauge.config.toml_table import Rule, TomlTable, join_key
from streamgauge.continual import Mechanism
from streamgauge.continual.mechanism import MECHANISMS
from streamgauge.continual.trees.hybrid import list_inner_names
from streamgauge.registry import RegistryError

LEVEL_MECHANISM, HIERARCHY_MECHANISM = "Pegasus", "PegasusHierarchy"

AUTO = "auto"
DERIVED_SETTINGS = {"loss", "horizon", "bound", "pan_private", "unit", "window", "decay", "half_life"}
DERIVED_SETTINGS |= {"exponent", "open_ticks"}
DERIVED_SETTINGS |= {"hierarchy", "signed", "lowest"}

Setting = int | bool | str | Fraction | tuple[int | Fraction, ...]
NamedMechanism = tuple[str, dict[str, Setting]]


@cache
def find_mechanisms() -> Mapping[str, type[Mechanism[Any, Any]]]:
    """Return all mechanisms that a release can name."""
    rooms = (continual, adaptive)
    found: dict[str, Any] = {name: getattr(room, name) for room in rooms for name in room.__all__}
    return {name: thing for name, thing in found.items() if _is_mechanism(thing)}


def _is_mechanism(thing: Any) -> bool:
    made = isinstance(thing, type) and issubclass(thing, Mechanism) and is_dataclass(thing)
    return made and not isabstract(thing)


def find_mechanism(name: str) -> type[Mechanism[Any, Any]]:
    """Return the mechanism of a name, also of a pinned one.

    A mechanism of another package is found if it is installed. The file that names it has passed the check of
    `[plugins] allow`.
    """
    if name in find_mechanisms():
        return find_mechanisms()[name]
    if name not in MECHANISMS.names(None):
        raise InvalidReleaseError(f"mechanism must be auto or one of {', '.join(find_mechanisms())}, got {name}")
    return _check_outside(name, MECHANISMS.load(name, None))


def _check_outside(name: str, claim: Any) -> type[Mechanism[Any, Any]]:
    if not _is_mechanism(claim) or claim.__name__ != name:
        raise InvalidReleaseError(
            f'mechanism "{name}" must be a dataclass of that name, of continual.Mechanism, got another'
        )
    found: type[Mechanism[Any, Any]] = claim
    return found


@cache
def build_setting_rules() -> Mapping[str, Mapping[str, Rule[Any]]]:
    """Return the mechanisms that a release can name, with the rules of their settings."""
    found: dict[str, Any] = dict(find_mechanisms())
    known = {name: _build_rules(claim) for name, claim in found.items()}
    return known | {
        LEVEL_MECHANISM: known[HIERARCHY_MECHANISM] | known[LEVEL_MECHANISM]
    }  # the query decides which of both it is


def _build_rules(claim: Any) -> dict[str, Rule[Any]]:
    return {field.name: _build_rule(field) for field in fields(claim) if field.name not in DERIVED_SETTINGS}


def _load_outside_rules(release: TomlTable, value: Any, plugins: tuple[str, ...]) -> dict[str, Mapping[str, Rule[Any]]]:
    """Return the settings of a mechanism of another package, if the release names one."""
    name = value.get("name") if isinstance(value, Mapping) else value
    if not isinstance(name, str) or name == AUTO or name in find_mechanisms() or name not in MECHANISMS.names(None):
        return {}
    try:
        return {name: _build_rules(_check_outside(name, MECHANISMS.load(name, plugins)))}
    except RegistryError as refusal:
        raise PipelineFileError(f"{release.key_path('mechanism')}: {refusal}") from None


def parse_mechanism(release: TomlTable, plugins: tuple[str, ...] = ()) -> NamedMechanism:
    """Return the mechanism's name and settings. `plugins` are the allowed packages."""
    value = release.entries.get("mechanism", AUTO)
    known = {**build_setting_rules(), **_load_outside_rules(release, value, plugins)}
    rule = Rule('"auto" or the name of a mechanism', lambda v: _parse_name(v, known), (AUTO, *known))
    if not isinstance(value, Mapping):
        return release.get_optional("mechanism", rule, AUTO), {}
    name = TomlTable.parse_open(release.key_path("mechanism"), value).get_required("name", rule)
    rules = known.get(name, {})
    for key in (key for key in value if key in DERIVED_SETTINGS):
        where = join_key(release.key_path("mechanism"), key)
        raise PipelineFileError(f"unknown key {where}: it follows from the rest of the release, leave it out")
    table = release.get_table("mechanism", ("name", *rules))
    return name, {key: table.get_required(key, rules[key]) for key in table if key != "name"}


def _parse_name(value: Any, known: Mapping[str, object]) -> str | None:
    return value if isinstance(value, str) and (value == AUTO or value in known) else None


def _build_rule(field: Field[Any]) -> Rule[Any]:
    """Return the rule of a setting, from its default and type."""
    if field.name == "inner":
        return build_choice_rule(*list_inner_names())
    if field.type is bool:
        return SWITCH
    if isinstance(field.default, str):
        return WORD_RULE
    if field.type in (int, int | None):
        return INT_RULE
    return NUMBERS_RULE if "tuple" in str(field.type) else SETTING_RULE


def _parse_setting(value: Any) -> int | Fraction | None:
    number = parse_fraction(value)
    if number is None or abs(number) > MAX_EXACT_INT:
        return None
    return int(number) if number.denominator == 1 else number


def _parse_int(value: Any) -> int | None:
    number = _parse_setting(value)
    return number if isinstance(number, int) else None


def _parse_numbers(value: Any) -> tuple[int | Fraction, ...] | None:
    numbers = [_parse_setting(each) for each in value] if isinstance(value, list | tuple) else []
    known = tuple(number for number in numbers if number is not None)
    return known if known and len(known) == len(numbers) else None


def parse_json_setting(value: Any) -> Any:
    """Return a setting that was written as JSON, with exact numbers as texts.

    >>> parse_json_setting("james_stein"), parse_json_setting("4/5"), parse_json_setting([1, "1/2"])
    ('james_stein', Fraction(4, 5), (1, Fraction(1, 2)))
    """
    if isinstance(value, list | tuple):
        return tuple(parse_json_setting(each) for each in value)
    if not isinstance(value, str):
        return value
    return value if WORD_PATTERN.fullmatch(value) else Fraction(value)


WORD_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9_ -]{0,99}")
SETTING_RULE: Rule[int | Fraction] = Rule('a number such as 5 or "4/5"', _parse_setting)
INT_RULE = Rule("a whole number", _parse_int)
WORD_RULE = Rule("a word", lambda v: v if isinstance(v, str) and WORD_PATTERN.fullmatch(v) else None)
NUMBERS_RULE = Rule("an array of numbers", _parse_numbers)
