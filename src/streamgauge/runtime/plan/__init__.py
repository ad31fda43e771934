"""The plan of a pipeline.

plan              costs and errors of every release
limits            memory and CPU time, by declarations alone
prices            what each currency buys, for no more and of what is left
gaussian_hints    when Gaussian noise errs less
render            the plan as text and JSON
"""
