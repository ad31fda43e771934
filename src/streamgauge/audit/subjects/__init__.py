"""Subjects of an audit.

mechanisms           continual mechanisms, also saved, loaded and beside other groups
layouts              widths and feeds of a run
adversaries          adaptively chosen streams
pan_private          memory of pan-private mechanisms
adaptive             adaptive mechanisms, and their groupers
statistics           statistics
user_tables          pan-private tables
local                reports of the local model, and devices over time
sketches             sketches of large domains
"""
