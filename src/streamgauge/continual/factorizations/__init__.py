"""Running counts under correlated noise: A = B C with a lower-triangular C.

toeplitz              factorisations with explicit coefficients
convolution           exact convolution of integers
square_root           square-root factorisation
encoder               encoders that a few numbers describe
coefficients          fitted encoders, as committed integers
correlated            calibration and step shared by the next two
normalisation         scales that make all columns equally long
buffered_toeplitz     bounded horizon
unbounded_toeplitz    no horizon
"""
