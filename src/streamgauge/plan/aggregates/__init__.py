"""Aggregate functions of SQL: one module each, found by its `FUNCTION`.

function            `AggregateFunction`: names, arguments, statistic
prediction          predicted errors
grids               grids and axes of bounded numbers
moments             COUNT, SUM, AVG, VARIANCE, STDDEV
count_if            COUNT_IF
quantiles           MEDIAN, QUANTILE, PERCENTILE_CONT, PERCENTILE_DISC
extremes            MIN, MAX
distinct            COUNT(DISTINCT column), APPROX_COUNT_DISTINCT
approx_frequency    APPROX_FREQUENCY
user_tables         DENSITY, HEAVY_FRACTION, CROPPED_MEAN
"""
