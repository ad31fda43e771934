"""Subjects of an audit.

mechanisms           continual mechanisms, also saved, loaded and beside other groups
layouts              widths and feeds of a run
adversaries          adaptively chosen streams
pan_private          memory of pan-private mechanisms
adaptive             adaptive mechanisms, and their groupers
statistics           statistics
user_tables          pan-private tables
user_table_search    search over their memories
local                reports of the local model, and devices over time
"""
