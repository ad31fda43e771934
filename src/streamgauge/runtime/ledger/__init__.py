"""Charges of a pipeline.

log           ledger entries in the store
shares        shares of analysts
thresholds    thresholds of discovered groups
render        the ledger as JSON
"""
