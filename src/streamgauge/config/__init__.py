"""Pipeline file: TOML in, checked settings out.

settings         the settings of a pipeline, checked and frozen
errors           errors of the file and of its queries
toml_table       checked access to a table of the file
rules            rules for values: names, numbers, durations, times
pipeline_file    the whole file
stream           [stream]
columns          [stream.columns]
lookup           [lookup.NAME]
mapper           [mapper.NAME], `map` and `reduce`
release          [[release]] and its alerts
windows          `window`
periods          days, weeks, months and other periods of a tumbling window
mechanism        `mechanism`
sink             [[sink]]
server           [server]
endpoints        kinds of sources, sinks and engines; [plugins] and [engine]
paths            paths of sources and sinks
canonical        the text of each block that the store pins
"""
