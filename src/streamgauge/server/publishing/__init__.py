"""Publication on the clock.

clock     the time at which a commit becomes visible
feed      events for readers, and the thread that publishes
reader    the store up to the last published commit
"""
