"""Checked access to the tables of a pipeline file, with one-line errors.

    stream.tick must be a duration such as "5m", got "5 minits"
    unknown key stream.allowed_latness (did you mean allowed_lateness?)

Every error names the key and the rule. A `Rule` describes a value in words and in code. A `TomlTable` knows its path
and its possible keys. It accepts only known keys, so a misspelt key never counts as omitted.
"""

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal
from typing import Any, Generic, TypeVar, overload

from streamgauge.config.errors import PipelineFileError

T = TypeVar("T")

BARE_KEY_PATTERN = re.compile(r"[A-Za-z0-9_-]+")
MAX_SHOWN_CHARS = 60  # characters of a value in an error
MAX_SHOWN_ITEMS = 5  # items of an array
MIN_SUGGESTION_CHARS = 4  # of a word that may be part of the intended one


@dataclass(frozen=True)
class Rule(Generic[T]):
    """Rule for a value. `parse` returns None for a bad one; `options` are for hints."""

    words: str
    parse: Callable[[Any], T | None]
    options: tuple[str, ...] = ()
    bare_number_hint: str = ""  # why a bare number is refused, if it seems possible


@dataclass(frozen=True)
class TomlTable:
    """Table of the file: its path ("" at the top), and its content."""

    path: str
    entries: Mapping[str, Any]

    @classmethod
    def parse(cls, where: str, value: Any, keys: Collection[str]) -> "TomlTable":
        """Return a table that may have only these keys."""
        table = cls.parse_open(where, value)
        for key in table.entries:
            if key not in keys:
                raise PipelineFileError(f"unknown key {table.key_path(key)}{suggest(key, keys)}")
        return table

    @classmethod
    def parse_open(cls, where: str, value: Any) -> "TomlTable":
        """Return a table whose keys are names that the curator chose."""
        if not isinstance(value, Mapping):
            raise build_rule_error(where, "a table", value)
        for key in value:
            if not isinstance(key, str):
                raise build_rule_error(where, "a table whose keys are text", key)
        return cls(where, value)

    def __contains__(self, key: str) -> bool:
        return key in self.entries

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def key_path(self, key: str) -> str:
        return join_key(self.path, key)

    def get_required(self, key: str, rule: Rule[T]) -> T:
        """Return the value at the key, by the rule."""
        value = self.entries.get(key)
        parsed = None if value is None else rule.parse(value)
        if parsed is None:
            is_bare = rule.bare_number_hint and isinstance(value, int | float | Decimal)
            why = f" ({rule.bare_number_hint})" if is_bare else ""
            raise self.build_error(key, rule.words + why, rule.options)
        return parsed

    @overload
    def get_optional(self, key: str, rule: Rule[T]) -> T | None: ...

    @overload
    def get_optional(self, key: str, rule: Rule[T], default: T) -> T: ...

    def get_optional(self, key: str, rule: Rule[T], default: T | None = None) -> T | None:
        return self.get_required(key, rule) if key in self.entries else default

    def get_table(self, key: str, keys: Collection[str]) -> "TomlTable":
        return TomlTable.parse(self.key_path(key), self.entries.get(key), keys)

    def get_tables(self, key: str) -> Mapping[str, Any]:
        """Return tables that the curator named, by name. It may be empty."""
        return TomlTable.parse_open(self.key_path(key), self.entries.get(key, {})).entries

    def get_array(self, key: str, what: str) -> list[Any]:
        """Return the array at the key, or an empty one without the key."""
        value = self.entries.get(key, [])
        if not isinstance(value, list | tuple):
            raise self.build_error(key, f"an array of {what}")
        return list(value)

    def build_error(
        self, key: str, rule: str, options: Iterable[str] = (), *, got: str | None = None
    ) -> PipelineFileError:
        """Return the error for the value at the key, which `got` describes if it is not shown as it is."""
        if got is not None:
            return PipelineFileError(f"{self.key_path(key)} must be {rule}, got {got}")
        return build_rule_error(self.key_path(key), rule, self.entries.get(key), options)


def build_rule_error(where: str, rule: str, value: Any, options: Iterable[str] = ()) -> PipelineFileError:
    """Return the error for a value, with a hint at the intended one."""
    hint = suggest(value, options) if isinstance(value, str) else ""
    return PipelineFileError(f"{where or 'the file'} must be {rule}, got {format_value(value)}{hint}")


def suggest(word: str, options: Iterable[str]) -> str:
    """Return a hint at the option that a misspelt word may mean, or an empty text.

    >>> suggest("allowed_lateness_", ["late", "allowed_lateness"])
    ' (did you mean allowed_lateness?)'
    """
    spelt = {option.lower(): option for option in options}
    meant = word.lower()[:MAX_SHOWN_CHARS]
    near = difflib.get_close_matches(meant, spelt, 1)
    near = near or [option for option in spelt if len(meant) >= MIN_SUGGESTION_CHARS and meant in option]
    return f" (did you mean {escape_line(spelt[near[0]])}?)" if near else ""


def join_key(where: str, key: str) -> str:
    """Return the path of a key in TOML spelling: stream.columns."body mass".bounds."""
    name = key if BARE_KEY_PATTERN.fullmatch(key) else quote_toml(key)
    return f"{where}.{name}" if where else name


def quote_toml(text: str) -> str:
    """Return text as a TOML string, in one line."""
    return '"' + escape_line(text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def escape_line(text: str) -> str:
    """Return text with all unprintable characters escaped.

    >>> escape_line("a" + chr(10) + "b")
    'a\\\\u000ab'
    """
    return "".join(c if c.isprintable() else _escape_character(ord(c)) for c in text)


def _escape_character(code: int) -> str:
    return f"\\u{code:04x}" if code < 2**16 else f"\\U{code:08x}"


def format_value(value: Any) -> str:
    """Return a value of the file for an error: short, and in one line.

    >>> format_value([1, Decimal("2.50"), True, "x", {}])
    '[1, 2.50, true, "x", a table]'
    """
    if isinstance(value, list | tuple):
        more = ", ..." if len(value) > MAX_SHOWN_ITEMS else ""
        return f"[{', '.join(_format_item(item) for item in value[:MAX_SHOWN_ITEMS])}{more}]"
    return _format_item(value)


def _format_item(value: Any) -> str:
    for kind, words in _FORMATTERS.items():
        if isinstance(value, kind):
            return words(value)
    text = escape_line(str(value)[: MAX_SHOWN_CHARS + 1])
    return text if len(text) <= MAX_SHOWN_CHARS else text[:MAX_SHOWN_CHARS] + "..."


_FORMATTERS: dict[Any, Callable[[Any], str]] = {
    str: lambda v: quote_toml(v if len(v) <= MAX_SHOWN_CHARS else v[:MAX_SHOWN_CHARS] + "..."),
    bool: lambda v: str(v).lower(),
    int: lambda v: str(v) if v.bit_length() < 200 else "a number of very many digits",
    date | time: lambda v: str(v.isoformat()),
    Mapping: lambda _: "a table",
    list | tuple: lambda _: "an array",
    type(None): lambda _: "nothing",
}
