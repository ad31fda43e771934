"""Helpers that tests of several folders share; imported as `tests.support`."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
