"""Checks of a mechanism that a release names, in the words of the file.

    AVG cannot use Pegasus: leave mechanism out
    window must be "running" for SparseCounter, got "each"

Mechanisms check their own settings, in words of Python. The checks here come first and find mistakes that a
curator can make in a file. Everything here follows from declarations.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import fields
from typing import Any

from streamgauge.adaptive import AdaptiveMechanism
from streamgauge.adaptive.w_event.budget import WEventMechanism
from streamgauge.config.errors import InvalidReleaseError
from streamgauge.config.mechanism import AUTO, HIERARCHY_MECHANISM, find_mechanism
from streamgauge.config.settings import Release, Stream
from streamgauge.config.toml_table import format_value
from streamgauge.config.windows import format_window
from streamgauge.continual import Mechanism
from streamgauge.continual.choice import POLYNOMIAL_KIND
from streamgauge.plan.aggregates.function import LEAVE_OUT_HINT, AggregateGroup
from streamgauge.plan.rollups import resolve_mechanism
from streamgauge.privacy import Loss, Pure, Zcdp
from streamgauge.sql.query import Query
from streamgauge.statistics.mechanism_config import build_window_settings

WINDOW_FORMS = {"each": '"each"', "sliding 2": '"sliding ..."', "running": '"running"'}
WINDOW_FORMS |= {"decayed 2": '"decayed half-life ..."', "decayed polynomial 1": '"decayed polynomial ..."'}


def check_fit(release: Release, query: Query, stream: Stream, groups: Iterable[AggregateGroup]) -> None:
    """Reject a named mechanism that cannot answer the aggregates of a release."""
    if release.window.startswith(POLYNOMIAL_KIND) and release.horizon is None:
        rule = f"horizon must be given with window = {format_value(release.window)}, got none"
        raise InvalidReleaseError(f'{rule}: give one such as "365d"')
    if release.mechanism == AUTO:
        return
    claim = find_mechanism(resolve_mechanism(release.mechanism, query))
    _check_levels(release, query, claim)
    if issubclass(claim, AdaptiveMechanism):
        if query.key is not None:
            raise InvalidReleaseError(f"groups that are discovered cannot use {release.mechanism}: {LEAVE_OUT_HINT}")
        for group in groups:
            for function in dict.fromkeys(aggregate.function for aggregate in group.aggregates):
                function.check_adaptive(group, release, claim)
    _check_window(release, stream, claim)
    _check_cost(release, stream, claim)
    if issubclass(claim, WEventMechanism) and not stream.unit.consecutive:
        rule = f'unit must be "event" or {{ w_event = ... }} for {release.mechanism}'
        raise InvalidReleaseError(f"{rule}, got users: name Pegasus, or {LEAVE_OUT_HINT}")
    _check_horizon(release, claim)


def _check_levels(release: Release, query: Query, claim: Any) -> None:
    """Reject settings of the other mechanism of the same name.

    One name stands for two mechanisms, and the query decides between them.
    """
    rolled, own = len(query.levels) > 1, {field.name for field in fields(claim)}
    if release.mechanism == HIERARCHY_MECHANISM and not rolled:
        raise InvalidReleaseError(f"{HIERARCHY_MECHANISM} must have GROUP BY ROLLUP (...), got none: name Pegasus")
    for name in release.settings.keys() - own:
        got = format_value(release.settings[name])
        raise InvalidReleaseError(
            f"mechanism.{name} must be left out {'under' if rolled else 'without'} ROLLUP, got {got}"
        )
    shares = release.settings.get("shares", query.levels)
    if len(shares) != len(query.levels):
        raise InvalidReleaseError(f"shares must be one for each of {len(query.levels)} levels, got {len(shares)}")


def _check_window(release: Release, stream: Stream, claim: type[Mechanism[Any, Any]]) -> None:
    if not _supports_window(claim, release.window):
        rule = " or ".join(words for window, words in WINDOW_FORMS.items() if _supports_window(claim, window))
        got = format_value(format_window(release.window, stream.tick))
        raise InvalidReleaseError(f"window must be {rule} for {release.mechanism}, got {got}: {LEAVE_OUT_HINT}")


def _supports_window(claim: type[Mechanism[Any, Any]], window: str) -> bool:
    try:
        build_window_settings(window, claim)
    except ValueError:
        return False
    return True


def find_part_loss(release: Release, stream: Stream) -> Loss:
    """Return the loss of a release for its parts: a rho at integer orders, if the ledger can add those up.

    Counters that bound all orders take it as the rho that it is, and are charged so.
    """
    allowed = stream.allows_integer_orders and isinstance(release.loss, Zcdp)
    return release.loss.as_integer_zcdp() if allowed else release.loss


def _check_cost(release: Release, stream: Stream, claim: type[Mechanism[Any, Any]]) -> None:
    if isinstance(release.loss, claim.LOSSES) or isinstance(find_part_loss(release, stream), claim.LOSSES):
        return
    wanted, other = ("epsilon", "rho") if Pure in claim.LOSSES else ("rho", "epsilon")
    got = other if release.share is None else f"a share of a budget that is kept in {other}"
    raise InvalidReleaseError(
        f"cost of {release.mechanism} must be given as {wanted}, got {got}: give {wanted}, or {LEAVE_OUT_HINT}"
    )


def _check_horizon(release: Release, claim: Any) -> None:
    """Reject a release without a horizon if its mechanism needs one."""
    if release.horizon is not None:
        return
    with suppress(TypeError):  # claims that need more arguments
        try:
            claim(release.loss, horizon=None)
        except ValueError as refusal:
            if str(refusal).startswith("horizon must be given"):
                rule = f"horizon must be given for {release.mechanism}, got none"
                raise InvalidReleaseError(f'{rule}: give one such as "365d", or {LEAVE_OUT_HINT}') from None
