"""Analysts' code: mappers in a subset of Python before statistics by key, and whole programs in a sandbox.

errors              refusals, with their lines
program             the checked program: a typed tree
expressions         expressions, from Python's syntax tree
parser              statements, functions and keys
text_rules          the built-ins, defined
interpreter         the definition of the language, one record at a time
wat_library         the built-ins in WebAssembly
memory_layout       the memory of a compiled mapper
compiler            from a program to WebAssembly
columns             columns of records
executor            compiled programs, batch by batch
dry_run             programs on rows that a person types
mapper              `Mapper`: a program, its keys and bounds, and a reducer
block_combination   private median and mean of the outputs of blocks
program_plan        sizes and errors of a window of blocks
sample_aggregate    `SampleAggregate`: whole programs over tumbling windows
sandbox             one block, one process, one slot (a package)
"""

from streamgauge.mapreduce.errors import MapperError
from streamgauge.mapreduce.mapper import KeyEstimate, Mapper, MapperRun
from streamgauge.mapreduce.program_plan import ProgramPlan
from streamgauge.mapreduce.sample_aggregate import ProgramEstimate, ProgramRun, SampleAggregate
from streamgauge.mapreduce.sandbox import SandboxError, SandboxLimits

__all__ = [
    "KeyEstimate",
    "Mapper",
    "MapperError",
    "MapperRun",
    "ProgramEstimate",
    "ProgramPlan",
    "ProgramRun",
    "SampleAggregate",
    "SandboxError",
    "SandboxLimits",
]
