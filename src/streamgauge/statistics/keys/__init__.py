"""Statistics by key.

histogram           counts by declared label
distinct            numbers of distinct users
hash_cells          numbers of distinct values from hash cells
ranking             largest keys and their intervals
discovery           thresholds for keys that are not declared
top_k               the keys with the most events
approx_frequency    totals of texts of a domain too large to declare
"""
