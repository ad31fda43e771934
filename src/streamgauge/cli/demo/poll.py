"""`streamgauge demo --local`: synthetic devices that each add noise to their favourite emoji.

Favourites come from a keystream with a known label, so every demo has the same ones. Each device draws its own
noise, which differs every time.
"""

from math import ceil, floor

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table
from rich.text import Text

from streamgauge.cli.console import add_row, build_table, stdout
from streamgauge.cli.demo import print_step
from streamgauge.cli.demo.clinic import ClinicArray, draw_uniform
from streamgauge.localdp import Frequencies, HadamardCountMeanSketch
from streamgauge.noise.coerce import Floats
from streamgauge.privacy import Pure
from streamgauge.releases.tables import format_rounded

EmojiIndexes = npt.NDArray[np.intp]

EMOJI_NAMES = {
    "😂": "joy",
    "❤": "heart",
    "😍": "adoring",
    "😭": "crying",
    "🔥": "fire",
    "😎": "cool",
    "⭐": "star",
    "🐱": "cat",
    "😡": "angry",
    "🌈": "rainbow",
    "😴": "asleep",
    "🎈": "balloon",
}  # and the names of their pictures
POLL_MARK = "# Favourite emoji of a synthetic crowd, made by `streamgauge demo`; visitors of its page may join.\n"
EPSILON, HASH_COUNT, SKETCH_WIDTH, SKETCH_SEED = 2, 1024, 1024, 7
CROWD_SIZE = 2000  # reports a tick
SWELL_FACTOR, PERIOD_TICKS = 0.6, 150  # how far a share rises, and ticks from one height to the next


def build_sketch() -> HadamardCountMeanSketch:
    """Return the mechanism of all devices."""
    return HadamardCountMeanSketch(Pure(EPSILON), hashes=HASH_COUNT, width=SKETCH_WIDTH, seed=SKETCH_SEED)


def draw_favourites(tick: int, people: int) -> EmojiIndexes:
    """Return the index of each person's favourite, the same every time."""
    drawn = draw_uniform(f"emoji {tick}", people)
    return np.minimum(np.searchsorted(np.cumsum(compute_shares(tick)), drawn, side="right"), len(EMOJI_NAMES) - 1)


def compute_shares(tick: int) -> ClinicArray:
    """Return the share of each emoji at a tick. Shares fall with the index, and rise and fall over time."""
    places = np.arange(len(EMOJI_NAMES))
    liked = (1 + SWELL_FACTOR * np.sin(2 * np.pi * (tick / PERIOD_TICKS + places * 0.382))) / (places + 1.5) ** 0.8
    return np.asarray(liked / liked.sum())


CONFIDENCE = 0.95
NUMBER_COLUMNS = ("truth", "estimate", "error", "95 % interval")


def run_poll(people: int) -> None:
    """Run the poll in memory; write nothing."""
    console, claim, items = stdout(), build_sketch(), list(EMOJI_NAMES)
    picked = draw_favourites(0, people)
    print_step(console, "1. A crowd", f"{people:,} devices, each with one of {len(items)} favourite emoji")
    console.print(f"every device sends by {claim!r}", soft_wrap=True)
    print_step(console, "2. A report of a device", f"{claim.report_size} bytes, different every time")
    for place in range(3):
        console.print(f"  {format_item(items[place])}  ->  {claim.privatise(items[place]).hex(' ')}")
    reports = claim.privatise_many([items[place] for place in picked])
    print_step(console, "3. Estimates for the crowd", "from all reports, beside the truth")
    collector = claim.build_collector()
    collector.add(reports)
    print_estimates(console, collector.estimate(items), np.bincount(picked, minlength=len(items)).astype(np.float64))


def print_estimates(console: Console, found: Frequencies, truth: Floats) -> None:
    low, high = found.interval(CONFIDENCE)
    inside = (low <= truth) & (truth <= high)
    console.print(_build_table(found, truth, inside))
    console.print()
    console.print(f"{inside.sum()} of {len(truth)} intervals contain the truth; 95 % are promised, each by itself")
    console.print("live, with your own device in it: streamgauge demo --local --live")


def _build_table(found: Frequencies, truth: Floats, inside: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> Table:
    table = build_table("", *NUMBER_COLUMNS, "inside", right_aligned=NUMBER_COLUMNS)
    low, high = found.interval(CONFIDENCE)
    for place in np.argsort(-found.count):
        shown = (truth[place], found.count[place], found.count[place] - truth[place])
        numbers = [format_rounded(float(each), float(found.stddev[place])) for each in shown]
        is_inside = Text("yes", "green") if inside[place] else Text("no", "yellow")
        between = format_count_range(float(low[place]), float(high[place]))
        add_row(table, format_item(str(found.items[place])), *numbers, between, is_inside)
    return table


def format_count_range(low: float, high: float) -> str:
    """Return the integers of an interval.

    >>> format_count_range(0.0, 93.4), format_count_range(1205.2, 1299.8)
    ('0 to 93', '1,206 to 1,299')
    """
    return f"{ceil(low):,} to {floor(high):,}"


def format_item(item: str) -> str:
    return f"{item} {EMOJI_NAMES[item]}"
