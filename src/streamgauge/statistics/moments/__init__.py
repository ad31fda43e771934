"""Sums, means and variances.

moments      increments of the noisy sums, and their sensitivity
intervals    intervals of ratios and spreads
sum          sums
mean         means
variance     variances and standard deviations
summary      all of them from one run
"""
