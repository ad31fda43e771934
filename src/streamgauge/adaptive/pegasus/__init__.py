"""PeGaSus: noisy counts, smoothed over groups of similar ticks.

grouper           private partition of a stream into groups
smoothers         estimates of a tick from the noisy counts of its group
windows           estimates of windows, with one more reading of each block of ticks
pegasus           the mechanism, and the history of its releases
node_estimates    consistent estimates of all nodes of a hierarchy
hierarchy         the mechanism over several resolutions
"""
