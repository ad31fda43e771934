"""Aggregate functions of SQL: one module each, found by its `FUNCTION`.

function       `AggregateFunction`: names, arguments, statistic
prediction     predicted errors
grids          grids and axes of bounded numbers
moments        COUNT, SUM, AVG, VARIANCE, STDDEV
quantiles      MEDIAN, QUANTILE
extremes       MIN, MAX
distinct       COUNT(DISTINCT column)
user_tables    DENSITY, HEAVY_FRACTION, CROPPED_MEAN
"""
