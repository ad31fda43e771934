"""Commands to a running pipeline: add a release, end one, announce an intrusion.

queue       commands, their outcomes, and the times at which they are applied
apply       application of commands to an open run, between two commits
"""
