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
from typing import Any

import numpy as np

from streamgauge import localdp
from streamgauge.audit.exact.kernels import ForkedChance, add_weights, list_branches, score_outcome
from streamgauge.audit.exact.worst_case import WorstCase
from streamgauge.audit.subject import ClaimSubject, Pair, Settings, find_claims, list_settings
from streamgauge.noise import EphemeralNoise
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
    found = []
    for report in reports:
        chances = {each: law.get(report, Fraction(0)) for each, law in laws.items()}
        most, least = max(chances, key=chances.__getitem__), min(chances, key=chances.__getitem__)
        ratio = chances[most] / chances[least] if chances[least] else inf
        found.append(ReportRatio(ratio, most, least, report))
    return max(found, key=lambda each: each.ratio)


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
REPORT_COUNT = 3  # times, in a history
REFUSED_BYTE = b"\0"
SENT_BYTE = b"\1"

History = tuple[str, ...]


@dataclass(frozen=True)
class DeviceReports:
    """All that a device sends in a history of items. The device is built again for each history."""

    loss: Pure
    build_device: Callable[[Any], Any] = field(repr=False)  # of its chance: an object with `report(item)`

    def privatise(self, history: History, chance: Any) -> bytes:
        """Return reports and refusals, which depend only on the number of earlier requests."""
        device, sent = self.build_device(chance), []
        for item in history:
            try:
                sent.append(SENT_BYTE + device.report(item))
            except localdp.BudgetExhaustedError:
                sent.append(REFUSED_BYTE)
        return b"".join(sent)

    def privatise_many(self, histories: Sequence[History], chance: Any) -> list[list[int]]:
        return [list(self.privatise(history, chance)) for history in histories]


@dataclass(frozen=True)
class LocalSubject(ClaimSubject):
    """A claim over a few items, or a device over a few histories; see the module.

    With `attacked_pair` these two are what experiments compare.
    """

    items: tuple[Any, ...]
    attacked_pair: tuple[Any, Any] | None = None

    @property
    def is_device(self) -> bool:
        return isinstance(self.claim, DeviceReports)

    @cached_property
    def laws(self) -> dict[LawInput, ReportLaw]:
        """Of all that is sent for each item, or in each history."""
        inputs = self.items if self.is_device else (*self.items, UNLISTED_ITEM)
        return {each: compute_law(partial(self.claim.privatise, each)) for each in inputs}

    @cached_property
    def worst_ratio(self) -> ReportRatio:
        return find_worst_ratio(self.laws)

    def worst(self) -> WorstCase:
        found, reports = self.worst_ratio, len(set().union(*self.laws.values()))
        how, faults = f"every report of {len(self.laws)} items, {reports} of them, in fractions", list[str]()
        if self.is_device:
            how = f"all that is sent in {len(self.laws)} histories of {len(self.items[0])} items, in fractions"
        elif hasattr(self.claim, "counts"):
            how += "; mean, variance and reach of estimates"
            faults += find_faults(self.claim, self.items, self.laws)
        pair = self._describe_pair(found.one, found.other)
        return WorstCase((), found.epsilon, pair, computed_from=how, faults=tuple(faults))

    def pairs(self) -> Sequence[Pair]:
        one, other = self.attacked_pair or (self.worst_ratio.one, self.worst_ratio.other)
        evidence = ReportEvidence(self.laws[one], self.laws[other])
        return [Pair(self._describe_pair(one, other), one, other, evidence)]

    def _describe_pair(self, *inputs: Any) -> str:
        return f"a device with {' or '.join(map(', '.join if self.is_device else repr, inputs))}"

    def views(self, data: Any, runs: int) -> Floats:
        sent = self.claim.privatise_many([data] * runs, self.noise or EphemeralNoise())
        return np.asarray(sent, np.float64)


def build_device_subject(build_device: Callable[[Any], Any], loss: Pure, **options: Any) -> LocalSubject:
    """Build the subject of a device over all histories of two items."""
    histories = tuple(product(ITEMS[:2], repeat=REPORT_COUNT))
    return LocalSubject(DeviceReports(loss, build_device), histories, **options)


def list_policies(claim: Any) -> Iterator[tuple[str, LocalSubject]]:
    """List every policy for repeated reports under a claim: its name, and the subject."""
    policies: list[tuple[str, Any, int | None]] = [
        ("repeated", localdp.Repeat(), None),
        ("charged", localdp.ChargeEachReport(claim.loss.group(2)), None),
        ("two days, daily budget", localdp.DailyBudget(claim.loss), 2),
    ]
    for name, policy, days in policies:
        device = localdp.Device(claim, policy)
        loss = device.loss if days is None else device.loss_over_days(days)
        build, title = partial(build_daily_device, claim, policy, days or 1), f"Device({claim!r}, {policy!r})"
        yield name, build_device_subject(build, loss or claim.loss, title=title)


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


def build_device_subjects(loss: Pure) -> Iterator[tuple[LocalSubject, str]]:
    """Build devices with repeated reports: enough to show the loss of each policy."""
    for claim in (
        localdp.RandomisedResponse(loss, items=ITEMS[:2]),
        localdp.HadamardCountMeanSketch(loss, hashes=1, width=2, seed=4),
    ):
        for words, subject in list_policies(claim):
            yield subject, f"{DEVICE_NAME}({type(claim).__name__}), {words}"
