"""Published numbers.

schema     measures and groups of a release
release    the release of one tick, and the releases of many
codec      a release as bytes
tables     releases as pandas, Polars, Arrow and HTML tables
"""
