"""Results in a terminal or a file.

plan         plans
ledger       ledgers
releases     newest releases
export       exports
plot         charts
audit        audit reports
"""
