"""Statistics of devices that trust nobody: each sends one private report; the collector only ever holds
noise."""

from streamgauge.localdp.again import Charge, DailyWithoutTotal, NoBudgetLeft, Repeat
from streamgauge.localdp.attempts import Due, taken_by
from streamgauge.localdp.choice import Choice, Choices, TooFewBits, choices, choose
from streamgauge.localdp.collection import device_of
from streamgauge.localdp.collector import Collector
from streamgauge.localdp.count_mean_sketch import CountMeanSketch
from streamgauge.localdp.device import Device, HandedOver
from streamgauge.localdp.estimates import Frequencies
from streamgauge.localdp.hadamard_count_mean_sketch import HadamardCountMeanSketch
from streamgauge.localdp.hadamard_response import HadamardResponse
from streamgauge.localdp.heavy_hitters import HeavyHitters
from streamgauge.localdp.local_hashing import LocalHashing
from streamgauge.localdp.memory_file import MemoryFile, MemoryInUse
from streamgauge.localdp.oracle import Oracle
from streamgauge.localdp.pace import NoReportLeft, TooSoon
from streamgauge.localdp.randomised_response import RandomisedResponse
from streamgauge.localdp.unary_encoding import UnaryEncoding
from streamgauge.localdp.windows import Windowed
from streamgauge.localdp.word_search import Search, WordCollector

__all__ = [
    "Charge",
    "Choice",
    "Choices",
    "Collector",
    "CountMeanSketch",
    "DailyWithoutTotal",
    "Device",
    "Due",
    "Frequencies",
    "HadamardCountMeanSketch",
    "HadamardResponse",
    "HandedOver",
    "HeavyHitters",
    "LocalHashing",
    "MemoryFile",
    "MemoryInUse",
    "NoBudgetLeft",
    "NoReportLeft",
    "Oracle",
    "RandomisedResponse",
    "Repeat",
    "Search",
    "TooFewBits",
    "TooSoon",
    "UnaryEncoding",
    "Windowed",
    "WordCollector",
    "choices",
    "choose",
    "device_of",
    "taken_by",
]
