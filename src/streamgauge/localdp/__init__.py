"""Statistics of devices in the local model: each device sends one private report.

report_bytes     reports as rows of bytes
oracle           variance of a frequency estimate
hashing          the public hash family
collisions       errors by shared cells
collector        sums of reports, and estimates
mechanism        the base class of all protocols
coded_reports    reports that support items
domain           declared items
protocols/       one protocol per file
word_search      the search for words
heavy_hitters    frequent words that are on no list
windows          estimates at every tick
choice           `choose`: the least predicted error for a report size
wire             messages with reports
device/          a device over time
"""

from streamgauge.localdp.choice import ProtocolChoice, ProtocolChoices, choose, compare
from streamgauge.localdp.collector import Collector, Frequencies
from streamgauge.localdp.device.device import Device, PendingReport, build_device, was_accepted
from streamgauge.localdp.device.memory import MemoryFile
from streamgauge.localdp.device.policy import (
    BudgetExhaustedError,
    ChargeEachReport,
    DailyBudget,
    Repeat,
    ReportPaceError,
)
from streamgauge.localdp.heavy_hitters import HeavyHitters
from streamgauge.localdp.protocols.count_mean_sketch import CountMeanSketch
from streamgauge.localdp.protocols.hadamard_count_mean_sketch import HadamardCountMeanSketch
from streamgauge.localdp.protocols.hadamard_response import HadamardResponse
from streamgauge.localdp.protocols.local_hashing import LocalHashing
from streamgauge.localdp.protocols.randomised_response import RandomisedResponse
from streamgauge.localdp.protocols.unary_encoding import UnaryEncoding
from streamgauge.localdp.windows import WindowedCollector
from streamgauge.localdp.wire import CollectionError
from streamgauge.localdp.word_search import Search, WordCollector

__all__ = [
    "BudgetExhaustedError",
    "ChargeEachReport",
    "CollectionError",
    "Collector",
    "CountMeanSketch",
    "DailyBudget",
    "Device",
    "Frequencies",
    "HadamardCountMeanSketch",
    "HadamardResponse",
    "HeavyHitters",
    "LocalHashing",
    "MemoryFile",
    "PendingReport",
    "ProtocolChoice",
    "ProtocolChoices",
    "RandomisedResponse",
    "Repeat",
    "ReportPaceError",
    "Search",
    "UnaryEncoding",
    "WindowedCollector",
    "WordCollector",
    "build_device",
    "choose",
    "compare",
    "was_accepted",
]
