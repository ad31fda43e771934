"""Engine of several processes on one machine: the embedded engine over parts of a batch.

tasks      parts of a batch, and the messages of a worker
worker     the worker process
pool       worker processes, and the tasks that they repeat after a crash
engine     `ProcessEngine`
"""
