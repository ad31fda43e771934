"""Losses by experiment.

measure       many runs on neighbours, and the loss that they show
attack        scores, their bins, and the event that is counted
confidence    bounds that hold with a stated confidence
outputs       outputs of any type as numbers
"""
