"""Losses by computation.

linear        views that are linear in data and draws, and their likelihood ratio
probe         such views, found by running the code
worst_case    worst-case neighbour of a linear mechanism
costs         cost of hiding data behind draws
approx_dp     epsilon at a delta under Gaussian noise
kernels       finite mechanisms, by enumeration
"""
