"""Releases that analysts request while a pipeline runs.

planning    the plan of a request
releases    requested releases in the ledger
"""
