"""Runs in a terminal.

monitor    progress bar, curator log and signals of a run
server     a run and its server
"""
