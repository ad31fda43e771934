"""Axes place values by exact comparison; trees build ranges from the fewest blocks."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from streamgauge import Pure, Zcdp
from streamgauge.statistics.ordered.axis import Axis
from streamgauge.statistics.ordered.value_tree import ValueTree, choose_tree, mean_blocks_below

SMALL = [
    ValueTree(cells, branching, levels)
    for cells, branching, levels in product(range(1, 12), (2, 3, 4), (1, 2, 3, 4))
    if levels == 1 or branching ** (levels - 2) < cells
]


def membership(tree: ValueTree) -> np.ndarray:
    """Return the matrix of the cells that each node counts."""
    matrix = np.zeros((tree.size, tree.cells), int)
    for level, place in enumerate(tree.find_nodes(np.arange(tree.cells)).T):
        assert len(place) == tree.cells, level
        matrix[place, np.arange(tree.cells)] = 1
    return matrix


def ranges(tree: ValueTree) -> list[tuple[int, int]]:
    return [(start, end) for start in range(tree.cells) for end in range(start + 1, tree.cells + 1)]


def indicator(tree: ValueTree, start: int, end: int) -> np.ndarray:
    cells = np.arange(tree.cells)
    return ((cells >= start) & (cells < end)).astype(int)


def fewest_of_all(tree: ValueTree, most: int) -> dict[tuple[int, ...], int]:
    """Return the least number of signed blocks for every vector of cells, by full search."""
    steps = [tuple(sign * row) for row in membership(tree) for sign in (1, -1)]
    known = {(0,) * tree.cells: 0}
    front = list(known)
    for count in range(1, most + 1):
        sums = {tuple(map(sum, zip(one, step, strict=True))) for one in front for step in steps}
        front = [vector for vector in sums if vector not in known]
        known |= dict.fromkeys(front, count)
    return known


@pytest.mark.parametrize("tree", SMALL, ids=repr)
def test_every_range_is_the_signed_sum_of_its_blocks(tree: ValueTree) -> None:
    matrix = membership(tree)
    for start, end in ranges(tree):
        nodes, signs = tree.find_blocks(start, end)
        assert len(set(nodes.tolist())) == len(nodes)
        assert (signs @ matrix[nodes] == indicator(tree, start, end)).all()


def test_twin_that_adds_instead_of_subtracting_is_caught() -> None:
    tree = ValueTree(10, 4, 2)
    nodes, signs = tree.find_blocks(0, 7)
    assert (np.abs(signs) @ membership(tree)[nodes] != indicator(tree, 0, 7)).any()


@pytest.mark.parametrize(
    "tree", [ValueTree(7, 2, 3), ValueTree(8, 2, 4), ValueTree(9, 3, 2), ValueTree(10, 4, 2)], ids=repr
)
def test_no_signed_sum_has_fewer_blocks(tree: ValueTree) -> None:
    known = fewest_of_all(tree, most=4)
    reached = 0
    for start, end in ranges(tree):
        count = len(tree.find_blocks(start, end)[0])
        best = known.get(tuple(indicator(tree, start, end).tolist()))
        assert count == best if best is not None else count > 4
        reached += best is not None
    assert reached > 0.9 * len(ranges(tree))


@pytest.mark.parametrize("tree", SMALL, ids=repr)
def test_all_prefixes_at_once_are_those_of_single_ranges(tree: ValueTree) -> None:
    prefixes = tree.prefixes(membership(tree).astype(float))
    cells = np.arange(tree.cells)
    assert (prefixes == (cells[None] < np.arange(tree.cells + 1)[:, None])).all()
    used = tree.prefixes(np.eye(tree.size))
    top = used[:, tree.level_starts[-1] :]
    assert (np.abs(used).sum(axis=1) == tree.blocks_below_top + tree.top_blocks_before).all()
    assert (top == (np.arange(tree.top_blocks) < tree.top_blocks_before[:, None])).all()


@pytest.mark.parametrize("tree", SMALL, ids=repr)
def test_routes_take_at_most_one_block_more_than_the_fewest(tree: ValueTree) -> None:
    for edge in range(1, tree.cells + 1):
        fewest = len(tree.find_blocks(0, edge)[0])
        assert fewest <= tree.blocks_below_top[edge] + tree.top_blocks_before[edge] <= fewest + max(1, tree.levels - 1)


@pytest.mark.parametrize("tree", [ValueTree(100, b, h) for b, h in ((2, 7), (5, 3), (10, 2), (7, 2))], ids=repr)
def test_criterion_equals_the_mean_of_all_routes(tree: ValueTree) -> None:
    below = mean_blocks_below(tree.cells, tree.branching)[tree.levels - 1]
    assert below == pytest.approx(tree.blocks_below_top[1:].mean())


@pytest.mark.parametrize("loss", [Pure(1), Zcdp(1)])
@pytest.mark.parametrize("cells", [1, 2, 10, 100, 1000])
def test_no_other_tree_has_less_predicted_error(loss: Pure | Zcdp, cells: int) -> None:
    power = 2 if isinstance(loss, Pure) else 1

    def predicted(tree: ValueTree) -> float:
        return float(tree.levels**power * (tree.blocks_below_top[1:].mean() + tree.top_blocks / 2))

    best = predicted(choose_tree(cells, loss))
    others = [ValueTree(cells, b, h) for b in (2, 3, 4, 8, 16, 32) for h in range(1, 8) if b ** (h - 1) <= 2 * cells]
    assert all(best <= predicted(tree) + 1e-9 for tree in others)


@pytest.mark.parametrize("step", [0.1, 0.25, "1/3", 0.7])
def test_values_are_in_the_cell_between_their_edges(step: float | str) -> None:
    axis = Axis(
        Fraction(step) * -7 if isinstance(step, str) else -7 * Fraction(str(step)), Fraction(str(step)) * 20, step
    )
    around = np.concatenate([axis.edges, np.nextafter(axis.edges, np.inf), np.nextafter(axis.edges, -np.inf)])
    cells, present = axis.encode(around)
    inside = (around >= axis.edges[0]) & (around < axis.edges[-1])
    assert present.all()
    assert (axis.edges[cells[inside]] <= around[inside]).all()
    assert (around[inside] < axis.edges[cells[inside] + 1]).all()


def test_decimals_lie_in_the_cell_that_begins_with_them() -> None:
    axis = Axis(0, 10, 0.1)
    typed = [float(f"{tenth / 10:.1f}") for tenth in range(100)]
    assert axis.encode(np.array(typed))[0].tolist() == list(range(100))
    assert [axis.find_edge("x", value) for value in typed] == list(range(100))


def test_items_are_clipped_or_dropped_one_by_one() -> None:
    axis = Axis(0, 10, 2)
    items = np.array([-1, 10, 1e300, float("inf"), None, "text", float("nan"), 10**400, True], object)
    cells, present = axis.encode(items)
    assert present.tolist() == [True, True, True, True, False, False, False, True, True]
    assert cells[present].tolist() == [0, 4, 4, 4, 4, 0]
    assert axis.encode(np.array([2**63 - 1, -(2**63)]))[0].tolist() == [4, 0]


def test_axes_are_equal_if_their_numbers_are() -> None:
    assert Axis(0, 1, 0.1) == Axis(0.0, 1.0, "1/10")
    assert hash(Axis(0, 1, 0.1)) == hash(Axis(0, 1, "0.1"))
    assert repr(Axis(0, 1, 0.1)) == "Axis(lower=0, upper=1, step=1/10)"


def test_invalid_axes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"lower must be declared .* it must be public"):
        Axis(None, 1, 1)
    with pytest.raises(ValueError, match="upper must be declared"):
        Axis(0)
    with pytest.raises(ValueError, match="step must be declared"):
        Axis(0, 1)
    with pytest.raises(ValueError, match="upper must be above lower, got 0 and 1"):
        Axis(1, 0, 1)
    with pytest.raises(ValueError, match="step must divide upper - lower = 10, got 3"):
        Axis(0, 10, 3)
    with pytest.raises(ValueError, match="step must be positive, got 0"):
        Axis(0, 10, 0)
    with pytest.raises(ValueError, match="step must leave at most"):
        Axis(0, 2**30, 1)
    with pytest.raises(ValueError, match="step must be wide enough"):
        Axis(2**53, 2**53 + 4, 1)


def test_bounds_that_lie_between_edges_are_refused_with_the_nearest() -> None:
    axis = Axis(0, 120, 10)
    with pytest.raises(ValueError, match=r"age must be at an edge .*nearest are 50 and 60\), got 55"):
        axis.find_edges("age", (55, None))
    with pytest.raises(ValueError, match="age must be from 0 to 120, got 130"):
        axis.find_edges("age", (130, None))
    with pytest.raises(ValueError, match=r"age must be a pair \(from, to\), .* got 50"):
        axis.find_edges("age", 50)
    with pytest.raises(ValueError, match=r"age must be a pair .* in order, got 60 and 50"):
        axis.find_edges("age", (60, 50))
    assert axis.find_edges("age", (None, 50)) == (0, 5)
    assert axis.find_edges("age", (50, 50)) == (5, 5)
