"""Running counts and window sums from noisy sums of blocks of ticks.

tree            the k-ary tree of p-sums
simple          noise on every count, or on every item
two_level       two p-sums per count
kary            k-ary counter with a fitted branching
binary          binary counter
subtractive     k-ary tree with subtraction
smooth          binary tree with balanced leaves
bridge          noise of blocks that ends at the noise of larger ones
bridge_tree     running counts under such noise
endless_bridge  the same without an end
hybrid          streams without an end, in growing epochs
segments        event-level counter with noise per segment
past_noise      noise ahead of its ticks, for memory that can be seized
past_bridge     counts whose memory is private for the past
two_part        pan-private counts from noise ahead and fresh noise
window_tiles    tiling of sliding windows by blocks
window_sum      sliding sums
window_bridge   sliding sums from an endless bridge
"""
