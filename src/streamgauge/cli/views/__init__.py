"""Results in a terminal or a file.

ledger       ledgers
releases     newest releases
export       exports
plot         charts
audit        audit reports
"""
