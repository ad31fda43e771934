"""Checked access to the tables of a pipeline file: every refusal is one line that names the key and the rule.

    stream.tick must be a duration such as "5m", got "5 minits"
    unknown key stream.latness (did you mean lateness?)

A `Rule` is what a value must be, in words and in code. A `Table` knows where it stands and which keys it may
have; it is made only of known keys, so that a misspelt one never counts as one left out.
"""

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")

BARE = re.compile(r"[A-Za-z0-9_-]+")
LONGEST_SHOWN = 60  # characters of a value in a refusal
FEW_SHOWN = 5  # items of an array
FEWEST_LETTERS = 4  # of a word that may be a part of what was meant


class BadFile(ValueError):  # noqa: N818 - named for what it says
    """A pipeline file that cannot be used: one line with the file, the key and the rule."""


@dataclass(frozen=True)
class Rule(Generic[T]):
    """What a value must be. `parse` returns None for what it is not; `options` are what a typo may mean."""

    words: str
    parse: Callable[[Any], T | None]
    options: tuple[str, ...] = ()
    number: str = ""  # why a bare number will not do, where someone may think so


@dataclass(frozen=True)
class Table:
    """A table of the file: where it stands ("" at the top), and what is in it."""

    where: str
    entries: Mapping[str, Any]

    @classmethod
    def of(cls, where: str, value: Any, keys: Collection[str]) -> "Table":
        """A table that may have just these keys."""
        table = cls.open(where, value)
        for key in table.entries:
            if key not in keys:
                raise BadFile(f"unknown key {table.at(key)}{suggestion(key, keys)}")
        return table

    @classmethod
    def open(cls, where: str, value: Any) -> "Table":
        """A table whose keys are names that the curator chose."""
        if not isinstance(value, Mapping):
            raise must(where, "a table", value)
        for key in value:
            if not isinstance(key, str):
                raise must(where, "a table whose keys are text", key)
        return cls(where, value)

    def __contains__(self, key: str) -> bool:
        return key in self.entries

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def at(self, key: str) -> str:
        return joined(self.where, key)

    def required(self, key: str, rule: Rule[T]) -> T:
        """What stands at the key, by the rule."""
        value = self.entries.get(key)
        parsed = None if value is None else rule.parse(value)
        if parsed is None:
            why = f" ({rule.number})" if rule.number and isinstance(value, int | float | Decimal) else ""
            raise self.bad(key, rule.words + why, rule.options)
        return parsed

    @overload
    def optional(self, key: str, rule: Rule[T]) -> T | None: ...

    @overload
    def optional(self, key: str, rule: Rule[T], default: T) -> T: ...

    def optional(self, key: str, rule: Rule[T], default: T | None = None) -> T | None:
        return self.required(key, rule) if key in self.entries else default

    def table(self, key: str, keys: Collection[str]) -> "Table":
        return Table.of(self.at(key), self.entries.get(key), keys)

    def tables(self, key: str) -> Mapping[str, Any]:
        """Tables that the curator named, by name; none if there are none."""
        return Table.open(self.at(key), self.entries.get(key, {})).entries

    def array(self, key: str, what: str) -> list[Any]:
        """What is listed at the key; nothing if the key is not there."""
        value = self.entries.get(key, [])
        if not isinstance(value, list | tuple):
            raise self.bad(key, f"an array of {what}")
        return list(value)

    def bad(self, key: str, rule: str, options: Iterable[str] = ()) -> BadFile:
        """The refusal of what stands at the key."""
        return must(self.at(key), rule, self.entries.get(key), options)


def must(where: str, rule: str, value: Any, options: Iterable[str] = ()) -> BadFile:
    """The refusal of a value, with what it may have been meant to be."""
    hint = suggestion(value, options) if isinstance(value, str) else ""
    return BadFile(f"{where or 'the file'} must be {rule}, got {shown(value)}{hint}")


def suggestion(word: str, options: Iterable[str]) -> str:
    """What a misspelt word may mean, if anything comes near it.

    >>> suggestion("lateness_", ["late", "lateness"])
    ' (did you mean lateness?)'
    """
    spelt = {option.lower(): option for option in options}
    meant = word.lower()[:LONGEST_SHOWN]
    near = difflib.get_close_matches(meant, spelt, 1)
    near = near or [option for option in spelt if len(meant) >= FEWEST_LETTERS and meant in option]
    return f" (did you mean {one_line(spelt[near[0]])}?)" if near else ""


def joined(where: str, key: str) -> str:
    """The path of a key, in TOML's own spelling: stream.columns."body mass".bounds."""
    name = key if BARE.fullmatch(key) else quoted(key)
    return f"{where}.{name}" if where else name


def quoted(text: str) -> str:
    """Text as TOML writes it, in one line."""
    return '"' + one_line(text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def one_line(text: str) -> str:
    """Text with everything escaped that is not seen in print.

    >>> one_line("a" + chr(10) + "b")
    'a\\\\u000ab'
    """
    return "".join(c if c.isprintable() else _escape(ord(c)) for c in text)


def _escape(code: int) -> str:
    return f"\\u{code:04x}" if code < 2**16 else f"\\U{code:08x}"


def shown(value: Any) -> str:
    """A value of the file as a refusal shows it: short, and in one line.

    >>> shown([1, Decimal("2.50"), True, "x", {}])
    '[1, 2.50, true, "x", a table]'
    """
    if isinstance(value, list | tuple):
        more = ", ..." if len(value) > FEW_SHOWN else ""
        return f"[{', '.join(_plain(item) for item in value[:FEW_SHOWN])}{more}]"
    return _plain(value)


def _plain(value: Any) -> str:
    for kind, words in _WORDS.items():
        if isinstance(value, kind):
            return words(value)
    text = one_line(str(value)[: LONGEST_SHOWN + 1])
    return text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "..."


def _number(value: int) -> str:
    return str(value) if value.bit_length() < 200 else "a number of very many digits"


_WORDS: dict[Any, Callable[[Any], str]] = {
    str: lambda v: quoted(v if len(v) <= LONGEST_SHOWN else v[:LONGEST_SHOWN] + "..."),
    bool: lambda v: str(v).lower(),
    int: _number,
    date | time: lambda v: str(v.isoformat()),
    Mapping: lambda _: "a table",
    list | tuple: lambda _: "an array",
    type(None): lambda _: "nothing",
}
