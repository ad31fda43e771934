"""Planner: from declarations to releases that can be run.

measure          requests to an engine
aggregates/      aggregate functions of SQL: statistic and predicted error
parts            runs that answer a SELECT
special_parts    parts of discovered groups and of private reports
pairs            queries over the pairs of a mapper, and their time
rollups          ROLLUP as a hierarchy
alerts           alert columns
windows          columns of several sliding windows
tumbling         releases with a row for each period
consistency      rules that adjusted numbers obey
few_events       counters for few events
fitting          checks of a mechanism given by name
predict          predicted errors
planner          `plan_release`: all of it
"""
