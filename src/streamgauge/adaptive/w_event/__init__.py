"""w-event privacy: the loss of every window of w ticks is bounded.

budget          accounting of windows
uniform         every tick, with noise for w ticks
sample          one tick in w
republish       base of the next two: publication only if the data moved
distribution    budget distribution
absorption      budget absorption
"""
