"""All that a run can show, with exact probabilities: every coin and die falls every way."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import fields
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from streamgauge.noise.sampler_table import enclose_exp_minus
from streamgauge.panprivate.run import TableRun

BITS = 256

T = TypeVar("T")
Ints = npt.NDArray[np.int64]
Path = list[int]  # the outcome of each draw
Act = str | Sequence[int]  # an act of an observer, or the users of a step
Memory = tuple[bytes, ...]
Tables = tuple[Memory, ...]
Sums = tuple[tuple[int, ...], ...]
Ways = dict[tuple[Memory, Tables, Sums], tuple[Fraction, Any]]  # with the state
Side = Mapping[Sums, Fraction]
Views = Mapping[Tables, Side]


class EveryWay:
    """A chance that follows a path of outcomes, and goes the first way where the path ends."""

    def __init__(self, path: Path) -> None:
        self.path, self.place = path, 0
        self.left: list[tuple[int, int]] = []  # (outcome taken, how many there are) at each draw
        self.probability = Fraction(1)

    def choose(self, chances: Sequence[Fraction]) -> int:
        taken = self.path[self.place] if self.place < len(self.path) else 0
        self.place += 1
        self.left.append((taken, len(chances)))
        self.probability *= chances[taken]
        return taken

    def coins(self, chance: Fraction, size: int) -> npt.NDArray[np.uint8]:
        return np.array([self.choose([1 - chance, chance]) for _ in range(size)], np.uint8)

    def uniform(self, sides: int, size: int) -> Ints:
        return np.array([self.choose([Fraction(1, sides)] * sides) for _ in range(size)], np.int64)

    def laplace(self, scale: Fraction, size: int) -> Ints:
        return np.zeros(size, np.int64)  # outputs are looked at without noise: see `worst`

    def gaussian(self, variance: Fraction, size: int) -> Ints:
        raise NotImplementedError("`worst` adds the noise of Laplace alone")


def following(left: list[tuple[int, int]]) -> Path | None:
    """The next path in order, or nothing."""
    path = [taken for taken, _ in left]
    while path:
        if path[-1] + 1 < left[len(path) - 1][1]:
            return [*path[:-1], path[-1] + 1]
        path.pop()
    return None


def memory(state: Any) -> Memory:
    """All that a state holds, as it is."""
    return tuple(np.asarray(getattr(state, each.name)).tobytes() for each in fields(state))


def shown(run: TableRun[Any, Any], chance: EveryWay, act: Act) -> tuple[Tables, Sums]:
    """Return the output of one act: tables, and sums before noise."""
    match act:
        case "see":
            return (memory(run._state),), ()
        case "intrude":
            return (memory(run.intrude()),), ()
        case "release":
            return (), (tuple(run.claim.release(run._state, chance).tolist()),)
        case users:
            run.add(np.array(users, np.int64))
            return (), ()


def every_way(act: Callable[[EveryWay], T]) -> Iterator[tuple[Fraction, T]]:
    """Yield (probability, result) for each outcome of the draws."""
    path: Path | None = []
    while path is not None:
        chance = EveryWay(path)
        found = act(chance)
        if chance.probability:
            yield chance.probability, found
        path = following(chance.left)


def acted(claim: Any, state: Any, intrusions: int, act: Act) -> list[tuple[Fraction, tuple[Any, tuple[Tables, Sums]]]]:
    """All that one act may make of a state, and show."""

    def once(chance: EveryWay) -> tuple[Any, tuple[Tables, Sums]]:
        run: TableRun[Any, Any] = TableRun(claim, deepcopy(state), chance, intrusions=intrusions)
        told = shown(run, chance, act)
        return run._state, told

    return list(every_way(once))


def gone_on(claim: Any, ways: Ways, intrusions: int, act: Act) -> Ways:
    """One more act, after each way; ways that lead to the same state and showed the same are one."""
    later: Ways = {}
    known: dict[Memory, list[tuple[Fraction, tuple[Any, tuple[Tables, Sums]]]]] = {}
    for (place, seen, sums), (probability, state) in ways.items():
        if place not in known:
            known[place] = acted(claim, state, intrusions, act)
        for chance, (after, (tables, numbers)) in known[place]:
            put(later, (memory(after), seen + tables, sums + numbers), probability * chance, after)
    return later


def put(ways: Ways, key: tuple[Memory, Tables, Sums], probability: Fraction, state: Any) -> None:
    before, _ = ways.get(key, (Fraction(0), None))
    ways[key] = before + probability, state


def views(claim: Any, acts: Sequence[Act]) -> Views:
    """Return a mapping: output -> (sums before noise) -> probability."""
    ways: Ways = {}
    for probability, state in every_way(claim.initial):
        put(ways, (memory(state), (), ()), probability, state)
    for done, act in enumerate(acts):
        ways = gone_on(claim, ways, acts[:done].count("intrude"), act)
    found: dict[Tables, dict[Sums, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    for (_, seen, sums), (probability, _) in ways.items():
        found[seen][sums] += probability
    return found


def power(epsilon: Any) -> Fraction:
    """A number not above e^epsilon, and hardly below."""
    return Fraction(2**BITS, enclose_exp_minus(Fraction(epsilon), BITS).high)


def worst(one: Views, two: Views, scale: Any) -> Fraction | None:
    """Return the largest ratio of probabilities of (output, noisy sums), over all of them, both ways.

    Beyond the outermost sums both sides fall alike, so the range between them has all cases.
    """
    ratio = Fraction(0)
    decay = Fraction(enclose_exp_minus(1 / Fraction(scale), 64).high, 2**64)
    for seen in set(one) | set(two):
        sides = [one.get(seen, {}), two.get(seen, {})]
        if not all(sides):
            return None
        for output in outputs(sides):
            mass = [likelihood(side, output, decay) for side in sides]
            ratio = max(ratio, mass[0] / mass[1], mass[1] / mass[0])
    return ratio


def outputs(sides: Sequence[Side]) -> list[list[int]]:
    """Every vector of outputs within the range of the sums."""
    sums = np.array([np.concatenate([*key]) if key else [] for side in sides for key in side], np.int64)
    grids = [range(int(low), int(high) + 1) for low, high in zip(sums.min(0), sums.max(0), strict=True)]
    return np.array(np.meshgrid(*grids)).reshape(len(grids), -1).T.tolist() if grids else [[]]


def likelihood(side: Side, output: Sequence[int], decay: Fraction) -> Fraction:
    total = Fraction(0)
    for sums, probability in side.items():
        exact = [number for each in sums for number in each]
        total += probability * decay ** sum(abs(o - s) for o, s in zip(output, exact, strict=True))
    return total
