"""Audit of a whole pipeline file.

audit         `audit_pipeline`
inputs        synthetic records
neighbours    neighbouring inputs
copies        copies of a file with many runs in one
runs          real runs of a copy
outputs       sinks as numbers
compare       trials without noise, and runs as subjects
"""
