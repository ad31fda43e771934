"""Sums in which older items weigh less.

tree               decayed sums from a tree of decayed p-sums
exponential        exponential decay
weighted_counts    decayed sums from running counts
polynomial         polynomial decay
"""
