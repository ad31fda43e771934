"""Statistics of values in order.

axis           a range of numbers cut into cells
value_tree     counts of blocks of cells
quantile       quantiles
extremes       minimum and maximum
range_count    counts of boxes
"""
