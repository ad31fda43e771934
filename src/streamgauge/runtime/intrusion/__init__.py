"""Announced intrusions into pan-private pipelines.

count      intrusions so far, and how many remain
intrude    the intrusion
export     the folder with the exported state
"""
