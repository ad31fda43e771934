// The order of groups: totals first, then by rank or newest released value, largest first.

/** Compare two groups {depth, rank, value}. Groups of which nothing is known come last. */
export function compareLargest(one, other) {
  if (one.depth !== other.depth) return one.depth - other.depth;
  if ((one.rank ?? Infinity) !== (other.rank ?? Infinity)) return (one.rank ?? Infinity) - (other.rank ?? Infinity);
  return sizeOf(other) - sizeOf(one) || 0;
}

const sizeOf = ({ value }) => (Number.isFinite(value) ? value : -Number.MAX_VALUE);

/** Return the groups of the newest tick, largest first, with their places: ranks, if the release ranks its groups. */
export function listNewest(groups) {
  const listed = groups.filter(({ value }) => Number.isFinite(value)).sort(compareLargest);
  return listed.map((group, place) => ({ ...group, rank: group.rank ?? place + 1 }));
}
