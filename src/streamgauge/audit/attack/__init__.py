"""Losses by experiment.

measure       many runs on neighbours, and the loss that they show
attack        a score, its bins, and the event that is counted
regression    scores fitted to training runs
likelihood    the log-likelihood ratio of a linear view
confidence    bounds that hold with a stated confidence
outputs       outputs of any type as numbers
"""
