"""What can be set of a claim that groups ticks that are alike: of one stream, or of all nodes of a tree.

`split` is the Perturber's part, `theta` how uneven a group may be, in units of 1/epsilon of the Grouper,
`longest` its most ticks. All of it is public.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from streamgauge.adaptive.adaptive import Adaptive, S
from streamgauge.privacy.exact import Number


@dataclass(frozen=True, kw_only=True)
class GroupedClaim(Adaptive[S]):
    """A claim whose counts are smoothed over groups of ticks."""

    WINDOWS: ClassVar[tuple[str, ...]] = ("each", "sliding", "running")
    RESTS_EXACT: ClassVar[str] = "its grouper holds the counts of open groups"
    window: str = "each"
    split: Number = Fraction(4, 5)
    theta: Number = 5
    smoother: str = "median"
    longest: int = 256
