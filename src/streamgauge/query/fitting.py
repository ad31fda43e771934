"""Whether a mechanism that was asked for by name fits its release: refused in the words of the file.

    AVG cannot use Pegasus: leave mechanism out
    window must be "running" for SparseCounter, got "each"

Mechanisms check their own settings, in words of Python; what a curator can write wrongly in a file is found
here, before that. Everything here follows from declarations.
"""

from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import fields
from typing import Any

from streamgauge.adaptive import Adaptive
from streamgauge.adaptive.window_budget import WindowClaim
from streamgauge.continual import Claim
from streamgauge.continual.choice import POLYNOMIAL
from streamgauge.privacy import Pure
from streamgauge.query.mechanism_names import AUTO, mechanism_named
from streamgauge.query.query import Query, Refused
from streamgauge.query.rollups import TOGETHER, named_for
from streamgauge.query.settings import Release, Stream
from streamgauge.query.toml_keys import shown
from streamgauge.query.windows import window_text
from streamgauge.statistics.settings import window_settings

LEAVE = "leave mechanism out"
SQL = {"mean": "AVG", "variance": "VAR_SAMP", "stddev": "STDDEV", "quantile": "MEDIAN or QUANTILE"}
SQL |= {"min": "MIN", "max": "MAX", "distinct": "COUNT(DISTINCT ...)"}
ADDED = {"count", "sum"}  # what mechanisms that adapt can answer, each as a run of its own
WINDOWS = {"each": '"each"', "sliding 2": '"sliding ..."', "running": '"running"'}
WINDOWS |= {"decayed 2": '"decayed half-life ..."', "decayed polynomial 1": '"decayed polynomial ..."'}


def check_fit(release: Release, query: Query, stream: Stream, runs: Iterable[Collection[str]]) -> None:
    """Refuses a named mechanism for what it cannot answer; `runs` are the aggregates that share a run."""
    if release.window.startswith(POLYNOMIAL) and release.horizon is None:
        rule = f"horizon must be given with window = {shown(release.window)}, got none"
        raise Refused(f'{rule}: give one such as "365d"')
    if release.mechanism == AUTO:
        return
    claim = mechanism_named(named_for(release.mechanism, query))
    _check_levels(release, query, claim)
    if issubclass(claim, Adaptive):
        _check_aggregates(release, query, claim, runs)
    _check_window(release, stream, claim)
    _check_cost(release, claim)
    if issubclass(claim, WindowClaim) and not stream.unit.consecutive:
        rule = f'unit must be "event" or {{ w_event = ... }} for {release.mechanism}'
        raise Refused(f"{rule}, got users: name Pegasus, or {LEAVE}")
    _check_horizon(release, claim)


def _check_levels(release: Release, query: Query, claim: Any) -> None:
    """One name stands for two mechanisms; which it is, and what can be set of it, is the query's to say."""
    rolled, own = len(query.levels) > 1, {field.name for field in fields(claim)}
    if release.mechanism == TOGETHER and not rolled:
        raise Refused(f"{TOGETHER} must have GROUP BY ROLLUP (...), got none: name Pegasus")
    for name in release.settings.keys() - own:
        got = shown(release.settings[name])
        raise Refused(
            f"mechanism.{name} must be left out {'under' if rolled else 'without'} ROLLUP, got {got}"
        )
    shares = release.settings.get("shares", query.levels)
    if len(shares) != len(query.levels):
        raise Refused(f"shares must be one for each of {len(query.levels)} levels, got {len(shares)}")


def _check_aggregates(
    release: Release, query: Query, claim: type[Adaptive[Any]], runs: Iterable[Collection[str]]
) -> None:
    name = release.mechanism
    if query.key is not None:
        raise Refused(f"groups that are discovered cannot use {name}: {LEAVE}")
    for kinds in runs:
        if other := [SQL[kind] for kind in SQL if kind in kinds and kind != "distinct"]:
            raise Refused(f"{' and '.join(other)} cannot use {name}: {LEAVE}")
        if len(ADDED & set(kinds)) > 1:
            rule = f"COUNT and SUM, which share a run, cannot use {name}"
            raise Refused(f"{rule}: ask for them in two releases, or {LEAVE}")
        if "distinct" in kinds:
            _check_distinct(release, claim)


def _check_distinct(release: Release, claim: type[Adaptive[Any]]) -> None:
    if claim.__name__ == TOGETHER:
        rule = f"{SQL['distinct']} cannot use {release.mechanism} under ROLLUP, since levels do not add up"
        raise Refused(f"{rule}: {LEAVE}")
    if release.window != "each":
        way = f'ask for window = "each", or {LEAVE}' if "each" in claim.WINDOWS else LEAVE
        raise Refused(f"{SQL['distinct']} of more than one tick cannot use {release.mechanism}: {way}")


def _check_window(release: Release, stream: Stream, claim: type[Claim[Any, Any]]) -> None:
    if not _answers(claim, release.window):
        rule = " or ".join(words for window, words in WINDOWS.items() if _answers(claim, window))
        got = shown(window_text(release.window, stream.tick))
        raise Refused(f"window must be {rule} for {release.mechanism}, got {got}: {LEAVE}")


def _answers(claim: type[Claim[Any, Any]], window: str) -> bool:
    try:
        window_settings(window, claim)
    except ValueError:
        return False
    return True


def _check_cost(release: Release, claim: type[Claim[Any, Any]]) -> None:
    if isinstance(release.loss, claim.LOSSES):
        return
    wanted, other = ("epsilon", "rho") if Pure in claim.LOSSES else ("rho", "epsilon")
    got = other if release.share is None else f"a share of a budget that is kept in {other}"
    raise Refused(
        f"cost of {release.mechanism} must be given as {wanted}, got {got}: give {wanted}, or {LEAVE}"
    )


def _check_horizon(release: Release, claim: Any) -> None:
    """Some mechanisms need to know how many ticks there will be: a claim without that says so first."""
    if release.horizon is not None:
        return
    with suppress(TypeError):  # of claims that need more
        try:
            claim(release.loss, horizon=None)
        except ValueError as refusal:
            if str(refusal).startswith("horizon must be given"):
                rule = f"horizon must be given for {release.mechanism}, got none"
                raise Refused(f'{rule}: give one such as "365d", or {LEAVE}') from None
