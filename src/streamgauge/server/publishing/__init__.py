"""Publication on the clock.

clock               when a commit becomes visible
commit_listener     commits of the run
feed                events for readers, and the thread that publishes
reader              the store up to the last published commit
"""
