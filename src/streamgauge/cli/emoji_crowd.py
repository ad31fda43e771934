"""A made-up crowd and its favourite emoji, whose shares rise and fall. Nobody real is in it.

Favourites are drawn from a keystream with a known label, so that every demo has the same ones; what each
device makes of its favourite is drawn by that device, and different every time.
"""

import numpy as np
import numpy.typing as npt

from streamgauge.cli.clinic import Floats, uniform
from streamgauge.localdp import HadamardCountMeanSketch
from streamgauge.privacy import Pure

Places = npt.NDArray[np.intp]

EMOJI = {
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
MARK = "# Favourite emoji of a made-up crowd, made by `streamgauge demo`; who opens its page may join.\n"
EPSILON, HASHES, WIDTH, SEED = 2, 1024, 1024, 7
CROWD = 2000  # reports a tick
SWELL, ROUND = 0.6, 150  # how far a share rises, and ticks from one height to the next


def sketch() -> HadamardCountMeanSketch:
    """What every device of the crowd sends by."""
    return HadamardCountMeanSketch(Pure(EPSILON), hashes=HASHES, width=WIDTH, seed=SEED)


def favourites(tick: int, people: int) -> Places:
    """The place of each one's favourite among EMOJI: the same every time."""
    drawn = uniform(f"emoji {tick}", people)
    return np.minimum(np.searchsorted(np.cumsum(shares(tick)), drawn, side="right"), len(EMOJI) - 1)


def shares(tick: int) -> Floats:
    """How liked each is at a tick: few by many, in the order of EMOJI, each with a swell of its own."""
    places = np.arange(len(EMOJI))
    liked = (1 + SWELL * np.sin(2 * np.pi * (tick / ROUND + places * 0.382))) / (places + 1.5) ** 0.8
    return np.asarray(liked / liked.sum())
