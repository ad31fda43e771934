"""Claims of the local model under audit: one report, its estimates, and devices over time.

Exactly: the law of a report is enumerated for every item, also for items that are not on a list, and all pairs of items
are compared. The real collector estimates from every report, weighted by these laws, so mean, variance and reach are
computed, not measured. A real device is driven along every branch of its coins and dice, for all histories of a few
items, and all pairs of histories are compared. A refusal is visible like a report. The claim is the device's own cost
of all its reports, or of some days if nothing bounds the rest. By experiment: real reports of the two inputs that lose
most, byte by byte.

    mean        a report of an item counts 1 for it on average, and for others m/(m - 1) (met/rows - 1/m) if the two
                items meet in `met` of the rows, of m columns; that is 0 over all hashes, and 0 without hashes
    variance    of the count of its own item, which no hash affects: the stated one
    reach       no report counts more for any item than the stated influence
    sums        two reports count as much as one by one

All protocols of `localdp` are tried with few reports, and devices under every policy.

Promise
    Laws are exact: coins and dice of the code take every branch, nothing is sampled and nothing left out. A report that
    one input may show and another cannot is an infinite ratio. Estimates that are wrong on average, in spread or in
    reach are found, for these items and the hashes of this seed. Counts are floats, compared up to 1e-6.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, partial
from itertools import pairwise, product
from math import inf, log
from typing import Any, Protocol

import numpy as np

from streamgauge import localdp
from streamgauge.audit.exact.kernels import ForkedChance, add_weights, list_branches, score_outcome
from streamgauge.audit.exact.worst_case import WorstCase
from streamgauge.audit.subject import ClaimSubject, ExperimentNoise, Pair, Settings, find_claims, list_settings
from streamgauge.noise import EphemeralNoise, RandomSource
from streamgauge.noise.coerce import Floats
from streamgauge.privacy import Pure

LawInput = Hashable
ReportLaw = dict[bytes, Fraction]


@dataclass(frozen=True)
class ReportRatio:
    """A likelihood ratio of one report under two inputs."""

    ratio: Fraction | float
    one: LawInput
    other: LawInput
    report: bytes

    @property
    def epsilon(self) -> float:
        return inf if self.ratio == inf else log(self.ratio)


def compute_law(act: Callable[[ForkedChance], bytes]) -> ReportLaw:
    return add_weights((branch.result, branch.weight) for branch in list_branches(act))


def find_worst_ratio(laws: Mapping[LawInput, ReportLaw]) -> ReportRatio:
    """Find the worst ratio of all pairs of inputs, in both directions."""
    reports = sorted(set().union(*laws.values()))
    return max((_compute_ratio(laws, report) for report in reports), key=lambda found: found.ratio)


def _compute_ratio(laws: Mapping[LawInput, ReportLaw], report: bytes) -> ReportRatio:
    chances = {each: law.get(report, Fraction(0)) for each, law in laws.items()}
    most, least = max(chances, key=chances.__getitem__), min(chances, key=chances.__getitem__)
    ratio = chances[most] / chances[least] if chances[least] else inf
    return ReportRatio(ratio, most, least, report)


@dataclass(frozen=True)
class ReportEvidence:
    """The log-likelihood ratio of rows, each of which has the bytes of one run."""

    one: ReportLaw
    other: ReportLaw

    def __call__(self, views: Floats) -> Floats:
        rows, place = np.unique(views, axis=0, return_inverse=True)
        scores = [score_outcome(self.one, self.other, bytes(row)) for row in rows.astype(np.uint8)]
        return np.array(scores, np.float64)[place.ravel()]


ESTIMATE_TOLERANCE = 1e-6

CountsByReport = dict[bytes, Floats]  # what each report counts for each item


def find_faults(claim: Any, items: Sequence[str], laws: Mapping[LawInput, ReportLaw]) -> Iterator[str]:
    """Return where estimates are not what the claim states: the worst of each kind."""
    counted = {report: count_reports(claim, [report], items) for report in sorted(set().union(*laws.values()))}
    means = {
        (item, other): compute_mean(laws[item], counted, place)
        for item, (place, other) in product(items, enumerate(items))
    }
    biases = {both: mean - float(expected_count(claim, *both)) for both, mean in means.items()}
    if is_wrong(biases[worst := max(biases, key=lambda both: abs(biases[both]))], expected_count(claim, *worst)):
        words = f"biased: a report of {worst[0]!r} counts {means[worst]:.4g} for {worst[1]!r} on average"
        yield f"{words}, must be {float(expected_count(claim, *worst)):.4g}"
    stated = float(claim.variance(1, 1))
    variances = {
        item: compute_mean(laws[item], counted, place, 2) - means[item, item] ** 2 for place, item in enumerate(items)
    }
    widest = max(variances, key=lambda item: abs(variances[item] - stated))
    if is_wrong(variances[widest] - stated, stated):
        yield f"variance of a report of {widest!r} is {variances[widest]:.4g}, stated {stated:.4g}"
    most = max(float(abs(each).max()) for each in counted.values())
    if most > claim.influence * (1 + ESTIMATE_TOLERANCE):
        yield f"one report moves an estimate by {most:.4g}, stated {claim.influence:.4g}"
    sums = ((count_reports(claim, [one, two], items), counted[one] + counted[two]) for one, two in pairwise(counted))
    if any(abs(both - apart).max() > ESTIMATE_TOLERANCE for both, apart in sums):
        yield "two reports count something else than both one by one"


def is_wrong(deviation: float, expected: Fraction | float) -> bool:
    return abs(deviation) > ESTIMATE_TOLERANCE * max(1.0, abs(float(expected)))


def count_reports(claim: Any, reports: Sequence[bytes], items: Sequence[str]) -> Floats:
    """Count reports by the real collector."""
    collector = claim.build_collector()
    collector.add(list(reports))
    found: Floats = collector.estimate(items).count
    return found


def expected_count(claim: Any, item: str, other: str) -> Fraction:
    """Return the mean count of a report of an item for another, or for itself."""
    if item == other:
        return Fraction(1)
    if not hasattr(claim, "family"):
        return Fraction(0)
    rows, width = claim.hashes, claim.width
    met = sum(claim.family.column(row, item) == claim.family.column(row, other) for row in range(rows))
    return Fraction(width, width - 1) * (Fraction(met, rows) - Fraction(1, width))


def compute_mean(law: ReportLaw, counted: CountsByReport, place: int, power: int = 1) -> float:
    return sum(float(chance) * float(counted[report][place]) ** power for report, chance in law.items())


UNLISTED_ITEM = "elsewhere"  # an item that is on no list


@dataclass(frozen=True)
class LocalSubject(ClaimSubject):
    """A claim over a few items; see the module. With `attacked_pair` these two are what experiments compare."""

    items: tuple[str, ...]
    attacked_pair: tuple[str, str] | None = None

    @cached_property
    def laws(self) -> dict[LawInput, ReportLaw]:
        """Of a report of each item."""
        return {item: compute_law(partial(self.claim.privatise, item)) for item in (*self.items, UNLISTED_ITEM)}

    @cached_property
    def worst_ratio(self) -> ReportRatio:
        return find_worst_ratio(self.laws)

    def worst(self) -> WorstCase:
        found, reports = self.worst_ratio, len(set().union(*self.laws.values()))
        how, faults = f"every report of {len(self.laws)} items, {reports} of them, in fractions", list[str]()
        if hasattr(self.claim, "counts"):
            how += "; mean, variance and reach of estimates"
            faults += find_faults(self.claim, self.items, self.laws)
        pair = f"a device with {found.one!r} or {found.other!r}"
        return WorstCase((), found.epsilon, pair, computed_from=how, faults=tuple(faults))

    def pairs(self) -> Sequence[Pair]:
        one, other = self.attacked_pair or (self.worst_ratio.one, self.worst_ratio.other)
        evidence = ReportEvidence(self.laws[one], self.laws[other])
        return [Pair(f"a device with {one!r} or {other!r}", one, other, evidence)]

    def views(self, data: str, runs: int) -> Floats:
        sent = self.claim.privatise_many([data] * runs, self.noise or EphemeralNoise())
        return np.asarray(sent, np.float64)


REPORT_COUNT = 3  # times, in a history
REFUSED_BYTE = b"\0"
SENT_BYTE = b"\1"

History = tuple[str, ...]


class ReportingDevice(Protocol):
    """A device that sends reports."""

    def report(self, item: str) -> bytes: ...


@dataclass(frozen=True)
class DeviceSubject:
    """A device, built again for each run. Experiments compare the histories of `attacked_pair`, if given."""

    name: str
    loss: Pure
    build_device: Callable[[Any], ReportingDevice] = field(repr=False)
    items: tuple[str, ...]
    report_count: int = REPORT_COUNT
    attacked_pair: tuple[History, History] | None = None
    noise: RandomSource | None = field(default=None, repr=False)

    @cached_property
    def laws(self) -> dict[LawInput, ReportLaw]:
        histories = product(self.items, repeat=self.report_count)
        return {history: compute_law(partial(self._send, history)) for history in histories}

    @cached_property
    def worst_ratio(self) -> ReportRatio:
        return find_worst_ratio(self.laws)

    def worst(self) -> WorstCase:
        found = self.worst_ratio
        how = f"all that is sent in {len(self.laws)} histories of {self.report_count} items, in fractions"
        return WorstCase((), found.epsilon, describe_pair(found.one, found.other), computed_from=how)

    def pairs(self) -> Sequence[Pair]:
        one, other = self.attacked_pair or (self.worst_ratio.one, self.worst_ratio.other)
        return [Pair(describe_pair(one, other), one, other, ReportEvidence(self.laws[one], self.laws[other]))]

    def views(self, data: History, runs: int) -> Floats:
        source = self.noise or ExperimentNoise()
        sent = b"".join(self._send(data, source) for _ in range(runs))
        return np.frombuffer(sent, np.uint8).reshape(runs, -1).astype(np.float64)

    def _send(self, history: History, chance: Any) -> bytes:
        device = self.build_device(chance)
        return b"".join(request_report(device, item) for item in history)


def request_report(device: ReportingDevice, item: str) -> bytes:
    """Return a report, or a refusal, which depends only on the number of earlier requests."""
    try:
        return SENT_BYTE + device.report(item)
    except localdp.BudgetExhaustedError:
        return REFUSED_BYTE


def describe_pair(one: Any, other: Any) -> str:
    return f"a device with {', '.join(one)} or {', '.join(other)}"


def list_policies(claim: Any, items: tuple[str, ...]) -> Sequence[tuple[str, DeviceSubject]]:
    """List every policy for repeated reports under a claim: its name, and the subject."""
    double = claim.loss.group(2)
    return [
        ("repeated", _build_subject(claim, items, localdp.Repeat())),
        ("charged", _build_subject(claim, items, localdp.ChargeEachReport(double))),
        ("two days, daily budget", _build_subject(claim, items, localdp.DailyBudget(claim.loss), days=2)),
    ]


def _build_subject(claim: Any, items: tuple[str, ...], policy: Any, days: int | None = None) -> DeviceSubject:
    device = localdp.Device(claim, policy)
    loss = device.loss if days is None else device.loss_over_days(days)
    name = f"Device({claim!r}, {policy!r})"
    return DeviceSubject(name, loss or claim.loss, partial(build_daily_device, claim, policy, days or 1), items)


def build_daily_device(claim: Any, policy: Any, days: int, chance: Any) -> localdp.Device:
    """Build a device whose days pass from one report to the next, until the last."""
    passed = iter([*range(days), *[days - 1] * REPORT_COUNT])
    return localdp.Device(claim, policy, today=lambda: next(passed), noise=chance)


ITEMS = ("a", "b", "c")
ITEMS_BY_CLASS = {"HeavyHitters": ("a", "ab", "cb")}  # items, where they are spelt
DEVICE_NAME = "Device"
ITEM_SETTINGS: Sequence[Settings] = ({"items": ITEMS}, {"items": ITEMS[:2]})

CLASS_SETTINGS: dict[str, Sequence[Settings]] = {
    "CountMeanSketch": ({"hashes": 2, "width": 3}, {"hashes": 1, "width": 4}),
    "HadamardCountMeanSketch": ({"hashes": 2, "width": 4}, {"hashes": 3, "width": 2}),
    "LocalHashing": ({"hashes": 2}, {"hashes": 3, "width": 2}),
    "RandomisedResponse": ITEM_SETTINGS,
    "UnaryEncoding": ITEM_SETTINGS,
    "HadamardResponse": ITEM_SETTINGS,
    "HeavyHitters": ({"alphabet": "abc", "length": 2, "step": 1, "hashes": 1, "width": 2},),
}


def find_oracles() -> dict[str, type[Any]]:
    """Return all protocols of reports: classes that have a loss and privatise."""
    return find_claims(localdp, "privatise")


def build_local_subjects(cls: type[Any], loss: Pure) -> Iterator[tuple[LocalSubject, Settings]]:
    """Build the subjects of a class with all settings that are tried."""
    for settings in list_settings(cls, CLASS_SETTINGS, {"loss"}):
        items = settings.get("items", ITEMS_BY_CLASS.get(cls.__name__, ITEMS))
        yield LocalSubject(cls(loss, **settings), items), settings


def build_device_subjects(loss: Pure) -> Iterator[tuple[DeviceSubject, str]]:
    """Build devices with repeated reports: enough to show the loss of each policy."""
    items = ITEMS[:2]
    for claim in (
        localdp.RandomisedResponse(loss, items=ITEMS[:2]),
        localdp.HadamardCountMeanSketch(loss, hashes=1, width=2, seed=4),
    ):
        for words, subject in list_policies(claim, items):
            yield subject, f"{DEVICE_NAME}({type(claim).__name__}), {words}"
