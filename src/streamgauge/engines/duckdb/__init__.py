"""Embedded engine, on DuckDB.

connection     a locked DuckDB connection, and errors without data
readers        files, blocks and lines as relations
rows           typed rows with tick and user
pairs          rows through a mapper
aggregation    sums by tick, group and cell
scan_files     scans of batch files
scan_live      scans of live blocks
user_counts    counts of users in sorted arrays
user_bounds    bounds on users of live sources
engine         `DuckEngine`
"""
