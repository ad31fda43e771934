"""`mechanism` of a release: "auto", a name, or a table with a name and settings of that mechanism.

Settings are those of the claim which a release does not decide by itself: { name = "Kary", branching = 13 },
{ name = "Pegasus", smoother = "average" }, { name = "Hybrid", inner = "Binary" }. Words begin with a letter
and exact numbers do not, so that either can be told from the other where both were written as text.
"""

import re
from collections.abc import Mapping
from dataclasses import Field, fields, is_dataclass
from fractions import Fraction
from functools import cache
from inspect import isabstract
from typing import Any

from streamgauge import adaptive, continual
from streamgauge.continual import Claim
from streamgauge.continual.hybrid import inner_names
from streamgauge.query.query import Refused
from streamgauge.query.rollups import BY_LEVEL, TOGETHER
from streamgauge.query.toml_keys import BadFile, Rule, Table, joined
from streamgauge.query.toml_rules import FARTHEST, SWITCH, one_of, rational

AUTO = "auto"
DECIDED = {"loss", "horizon", "bound", "pan_private", "unit", "window", "decay", "half_life"}
DECIDED |= {"exponent", "open_ticks"}
DECIDED |= {"hierarchy", "signed", "lowest"}

Setting = int | bool | str | Fraction | tuple[int | Fraction, ...]
Chosen = tuple[str, dict[str, Setting]]


@cache
def mechanisms() -> Mapping[str, type[Claim[Any, Any]]]:
    """All that can be asked for by name."""
    rooms = (continual, adaptive)
    found: dict[str, Any] = {name: getattr(room, name) for room in rooms for name in room.__all__}
    return {name: thing for name, thing in found.items() if _is_claim(thing)}


def _is_claim(thing: Any) -> bool:
    made = isinstance(thing, type) and issubclass(thing, Claim) and is_dataclass(thing)
    return made and not isabstract(thing)


def mechanism_named(name: str) -> type[Claim[Any, Any]]:
    """The mechanism of a name, or of one that was pinned."""
    if name not in mechanisms():
        raise Refused(f"mechanism must be auto or one of {', '.join(mechanisms())}, got {name}")
    return mechanisms()[name]


@cache
def settings_by_mechanism() -> Mapping[str, Mapping[str, Rule[Any]]]:
    """The mechanisms that can be asked for by name, and what can be set of each, by which rule."""
    found: dict[str, Any] = dict(mechanisms())
    known = {
        name: {field.name: _rule(field) for field in fields(claim) if field.name not in DECIDED}
        for name, claim in found.items()
    }
    return known | {BY_LEVEL: known[TOGETHER] | known[BY_LEVEL]}  # which of both it is, its query decides


def mechanism_of(release: Table) -> Chosen:
    """The mechanism's name and its settings."""
    value = release.entries.get("mechanism", AUTO)
    known = settings_by_mechanism()
    rule = Rule('"auto" or the name of a mechanism', lambda v: _known(v, known), (AUTO, *known))
    if not isinstance(value, Mapping):
        return release.optional("mechanism", rule, AUTO), {}
    name = Table.open(release.at("mechanism"), value).required("name", rule)
    rules = known.get(name, {})
    for key in (key for key in value if key in DECIDED):
        where = joined(release.at("mechanism"), key)
        raise BadFile(f"unknown key {where}: it follows from the rest of the release, leave it out")
    table = release.table("mechanism", ("name", *rules))
    return name, {key: table.required(key, rules[key]) for key in table if key != "name"}


def _known(value: Any, known: Mapping[str, object]) -> str | None:
    return value if isinstance(value, str) and (value == AUTO or value in known) else None


def _rule(field: Field[Any]) -> Rule[Any]:
    """What a setting must be, by its own default and type."""
    if field.name == "inner":
        return one_of(*inner_names())
    if field.type is bool:
        return SWITCH
    if isinstance(field.default, str):
        return SPELT
    if field.type in (int, int | None):
        return WHOLE
    return NUMBERS if "tuple" in str(field.type) else SETTING


def _setting(value: Any) -> int | Fraction | None:
    number = rational(value)
    if number is None or abs(number) > FARTHEST:
        return None
    return int(number) if number.denominator == 1 else number


def _whole(value: Any) -> int | None:
    number = _setting(value)
    return number if isinstance(number, int) else None


def _numbers(value: Any) -> tuple[int | Fraction, ...] | None:
    numbers = [_setting(each) for each in value] if isinstance(value, list | tuple) else []
    known = tuple(number for number in numbers if number is not None)
    return known if known and len(known) == len(numbers) else None


def setting_of_json(value: Any) -> Any:
    """A setting that was written as JSON, in which exact numbers are texts.

    >>> setting_of_json("james_stein"), setting_of_json("4/5"), setting_of_json([1, "1/2"])
    ('james_stein', Fraction(4, 5), (1, Fraction(1, 2)))
    """
    if isinstance(value, list | tuple):
        return tuple(setting_of_json(each) for each in value)
    if not isinstance(value, str):
        return value
    return value if WORD.fullmatch(value) else Fraction(value)


WORD = re.compile(r"[A-Za-z][A-Za-z0-9_ -]{0,99}")
SETTING: Rule[int | Fraction] = Rule('a number such as 5 or "4/5"', _setting)
WHOLE = Rule("a whole number", _whole)
SPELT = Rule("a word", lambda v: v if isinstance(v, str) and WORD.fullmatch(v) else None)
NUMBERS = Rule("an array of numbers", _numbers)
