"""Failures that are kept for longer than what was at work when they came: emptied of it."""

from traceback import clear_frames


def let_go(failure: BaseException, *, where: bool) -> None:
    """Empties a failure, and those it came of, of all that was at work; `where` leaves the lines."""
    left: list[BaseException | None] = [failure]
    known: list[BaseException] = []
    while left:
        each = left.pop()
        if each is None or each in known:
            continue
        known.append(each)
        left += [each.__cause__, each.__context__]
        clear_frames(each.__traceback__)
        if not where:
            each.with_traceback(None)
            each.__cause__ = each.__context__ = None
