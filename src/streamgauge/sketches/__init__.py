"""Sketches: small summaries of streams over domains that cannot be listed, with noise.

On one machine exact counters win nearly always: `compare` prints both. Sketches are for domains that do not fit,
for machines whose results are merged, and for memory that may be seized.

polynomial_hash    k-wise independent hashes
item_hash          keyed hash of items
sketch_table       CountSketch without noise
count_sketch       continual private CountSketch
heavy_keys         frequent keys of an unknown domain
misra_gries        frequent items, without deletions
flip_merge         distinct items
count_min          Count-Min with noise
second_moment      the second moment, without privacy
stable             p-stable sketches
comparison         `compare`: sizes and errors beside an exact counter
"""

from streamgauge.sketches.comparison import SketchComparison, compare
from streamgauge.sketches.count_min import CountMin, CountMinRelease
from streamgauge.sketches.count_sketch import CountSketch, CountSketchRelease, CountSketchRun, SketchEstimate
from streamgauge.sketches.flip_merge import BitTable, DistinctEstimate, FlipMerge, FlipMergeRun
from streamgauge.sketches.heavy_keys import FoundKey, HeavyKeys, HeavyKeysRelease
from streamgauge.sketches.item_hash import ItemHash, create_key
from streamgauge.sketches.misra_gries import HeavyItems, MisraGries, MisraGriesRun
from streamgauge.sketches.polynomial_hash import PolynomialHash
from streamgauge.sketches.second_moment import SecondMoment
from streamgauge.sketches.sketch_table import CellHash, SketchTable
from streamgauge.sketches.stable import ExperimentalReleaseError, PStable, PStableSketch, release_stable

__all__ = [
    "BitTable",
    "CellHash",
    "CountMin",
    "CountMinRelease",
    "CountSketch",
    "CountSketchRelease",
    "CountSketchRun",
    "DistinctEstimate",
    "ExperimentalReleaseError",
    "FlipMerge",
    "FlipMergeRun",
    "FoundKey",
    "HeavyItems",
    "HeavyKeys",
    "HeavyKeysRelease",
    "ItemHash",
    "MisraGries",
    "MisraGriesRun",
    "PStable",
    "PStableSketch",
    "PolynomialHash",
    "SecondMoment",
    "SketchComparison",
    "SketchEstimate",
    "SketchTable",
    "compare",
    "create_key",
    "release_stable",
]
