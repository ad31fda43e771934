"""Sketches: small summaries of streams over domains that cannot be listed, with noise.

Sketches are for domains that do not fit,
for machines whose results are merged, and for memory that may be seized.

polynomial_hash    k-wise independent hashes
item_hash          keyed hash of items
"""

from streamgauge.sketches.item_hash import ItemHash, create_key
from streamgauge.sketches.polynomial_hash import PolynomialHash

__all__ = ["ItemHash", "PolynomialHash", "create_key"]
