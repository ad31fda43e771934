"""A device over time: its reports, its memory, and when it sends again.

memory    the memory of a device, in a process or in a file
policy    cost of a repeated request, and the pace of reports
device    the device, and when the last report is sent again
"""
