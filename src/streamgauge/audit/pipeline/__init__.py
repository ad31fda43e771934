"""Audit of a whole pipeline file.

audit         `audit_pipeline`
inputs        synthetic records
neighbours    neighbouring inputs
copies        copies of a file with many runs in one
runs          real runs of a copy
outputs       sinks as numbers
trial         runs without noise
compare       runs as subjects: their numbers, and everything public besides
"""
