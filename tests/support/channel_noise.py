"""Noise of decoded channels, computed by itself."""

import numpy as np

from streamgauge.statistics.moments.intervals import ChannelRows, Floats


def noise_covariance(rows: ChannelRows) -> Floats:
    """Return the noise covariance of the sums of 1, u, ..., measured by `rows` under noise of variance 1."""
    decoder = np.linalg.inv(np.array(rows, np.float64))
    return np.asarray(decoder @ decoder.T)
