"""Runs over live sources.

run             the loop: ticks close by the clock
open_ticks      sums of ticks that are not closed
open_reports    sums of private reports
state           state of a run between commits
"""
