"""Every claim of the room `localdp` with few reports, and devices under every rule, found by looking.

A class that needs a setting which is not known here is an error, not an omission.
"""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any

from streamgauge import localdp
from streamgauge.audit.local_devices import DeviceSubject, policies
from streamgauge.audit.local_reports import LocalSubject
from streamgauge.localdp import HadamardCountMeanSketch, RandomisedResponse
from streamgauge.privacy import Pure

Settings = Mapping[str, Any]
ITEMS = ("a", "b", "c")
WORDS = {"HeavyHitters": ("a", "ab", "cb")}  # items, where they are spelt
DEVICE = "Device"
LISTED: Sequence[Settings] = ({"items": ITEMS}, {"items": ITEMS[:2]})

SETTINGS: dict[str, Sequence[Settings]] = {
    "CountMeanSketch": ({"hashes": 2, "width": 3}, {"hashes": 1, "width": 4}),
    "HadamardCountMeanSketch": ({"hashes": 2, "width": 4}, {"hashes": 3, "width": 2}),
    "LocalHashing": ({"hashes": 2}, {"hashes": 3, "width": 2}),
    "RandomisedResponse": LISTED,
    "UnaryEncoding": LISTED,
    "HadamardResponse": LISTED,
    "HeavyHitters": ({"alphabet": "abc", "length": 2, "step": 1, "hashes": 1, "width": 2},),
}


def oracles() -> dict[str, type[Any]]:
    """All that devices can report by: what has a loss and privatises."""
    found = {name: getattr(localdp, name) for name in localdp.__all__}
    return {name: cls for name, cls in found.items() if is_oracle(cls)}


def is_oracle(cls: Any) -> bool:
    claims = inspect.isclass(cls) and "loss" in getattr(cls, "__dataclass_fields__", ())
    return claims and hasattr(cls, "privatise") and not inspect.isabstract(cls)


def local_claims(cls: type[Any], loss: Pure) -> Iterator[tuple[LocalSubject, Settings]]:
    """With all settings that are tried."""
    needed = {each.name for each in fields(cls) if each.default is MISSING}
    for settings in SETTINGS.get(cls.__name__, ({},)):
        if unknown := needed - {"loss", *settings}:
            raise TypeError(f"settings of {cls.__name__} must be in the catalogue, got none of {unknown}")
        items = settings.get("items", WORDS.get(cls.__name__, ITEMS))
        yield LocalSubject(cls(loss, **settings), items), settings


def device_claims(loss: Pure) -> Iterator[tuple[DeviceSubject, str]]:
    """Devices that are asked again: reports that are enough to see what each rule loses."""
    items = ITEMS[:2]
    for claim in (
        RandomisedResponse(loss, items=ITEMS[:2]),
        HadamardCountMeanSketch(loss, hashes=1, width=2, seed=4),
    ):
        for words, subject in policies(claim, items):
            yield subject, f"{DEVICE}({type(claim).__name__}), {words}"
