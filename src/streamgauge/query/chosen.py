"""Which mechanism counts for each part of a release: chosen when it is planned, pinned when it is charged.

    {"mechanism": "SubtractiveTree", "settings": {"branching": 27}}
    {"mechanism": "Pegasus", "settings": {"split": "4/5", "theta": "5", "smoother": "median", "longest": 256}}

A choice that is left open, by "auto" or by a name without settings, is that of least predicted error, as the
version sees it that plans the release.

Promise
    A part that is `kept` has the very counter that it was charged with, whatever would be chosen now: the
    settings of a choice are written out, so that none is left to be chosen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from streamgauge.postprocess import Hierarchy
from streamgauge.query.mechanism_names import mechanism_named, setting_of_json
from streamgauge.query.parts import Part
from streamgauge.query.query import Refused
from streamgauge.statistics import Statistic
from streamgauge.statistics.local_frequency import LocalFrequency
from streamgauge.statistics.tuned import Tuned
from streamgauge.statistics.user_table import UserTable

Choice = Mapping[str, Any]  # ready for JSON
Choices = Sequence[Choice | None]


def choice_of(statistic: Any) -> Choice | None:
    """The mechanism of a statistic with all its settings; none if they do not say all of it."""
    if isinstance(statistic, UserTable | LocalFrequency):
        return None
    counter = statistic.counter
    choice = {
        "mechanism": type(counter).__name__,
        "settings": {name: _as_json(value) for name, value in Tuned.like(counter).settings},
    }
    return choice if counted_by(statistic, choice).counter == counter else None


def counted_by(statistic: Statistic[Any], choice: Choice | None) -> Statistic[Any]:
    """The same statistic with a choice as if it had been asked for."""
    if choice is None:
        return statistic
    settings = {name: _of_json(name, value) for name, value in choice["settings"].items()}
    made: Any = statistic
    counted: Statistic[Any] = replace(
        made, mechanism=Tuned.of(mechanism_named(choice["mechanism"]), **settings)
    )
    return counted


def kept(parts: Sequence[Part], choices: Choices) -> tuple[Part, ...]:
    """The parts of a release as they were charged; without choices, as they are."""
    if choices and len(choices) != len(parts):
        raise Refused(f"parts must be as many as were charged, {len(choices)}, got {len(parts)}")
    pairs = zip(parts, choices or [None] * len(parts), strict=True)
    return tuple(replace(part, statistic=counted_by(part.statistic, choice)) for part, choice in pairs)


def _as_json(value: Any) -> Any:
    if isinstance(value, Hierarchy):
        return {"parents": list(value.parents)}
    if isinstance(value, tuple):
        return [_as_json(each) for each in value]
    if isinstance(value, type):
        return value.__name__
    return str(value) if isinstance(value, Fraction) else value


def _of_json(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return Hierarchy(value["parents"])
    if name == "inner":
        return mechanism_named(value)
    return setting_of_json(value)
