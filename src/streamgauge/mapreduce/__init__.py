"""Analysts' code: mappers in a total subset of Python, before statistics by key.

errors           refusals, with their lines
program          the checked program: a typed tree
expressions      expressions, from Python's syntax tree
parser           statements, functions and keys
text_rules       the built-ins, defined
interpreter      the definition of the language, one record at a time
wat_library      the built-ins in WebAssembly
memory_layout    the memory of a compiled mapper
compiler         from a program to WebAssembly
columns          columns of records
executor         compiled programs, batch by batch
dry_run          programs on rows that a person types
mapper           `Mapper`: a program, its keys and bounds, and a reducer
"""

from streamgauge.mapreduce.errors import MapperError
from streamgauge.mapreduce.mapper import KeyEstimate, Mapper, MapperRun

__all__ = ["KeyEstimate", "Mapper", "MapperError", "MapperRun"]
