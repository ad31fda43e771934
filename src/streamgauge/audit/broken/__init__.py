"""Broken twins: mechanisms that claim more privacy than they keep, each with a mistake that was made before.

    pairs        a broken mechanism and its honest twin
    constants    noise too small by a factor: levels, scales, horizons, units, budgets
    noise        noise used twice, or missing in one layout of a run
    bridges      shares of future noise that move with an event
    noise_ahead  noise in memory that is read with the events which it should hide
    values       bounds and scales applied too late, floats that identify the data, the sparse vector technique
    memory       registers and tables of users that an intruder finds exact
    adaptive     groupers, hierarchies, window budgets and counters for few events
    local        reports of devices, and estimates from them
    sketches     keys, rows, tables and bits of sketches

An audit that does not condemn all of them, or condemns one of their honest twins, is itself broken.
"""

from collections.abc import Iterator

from streamgauge.audit.broken import adaptive, bridges, constants, local, memory, noise, noise_ahead, sketches, values
from streamgauge.audit.broken.pairs import TwinPair
from streamgauge.audit.subject import ExperimentNoise

__all__ = ["ExperimentNoise", "TwinPair", "every_twin"]

FAMILIES = (
    constants.every_twin,
    noise.build_reuse_twins,
    bridges.every_twin,
    values.every_twin,
    values.build_float_twins,
    noise.build_layout_twins,
    memory.every_twin,
    noise_ahead.every_twin,
    values.build_presence_twins,
    values.build_renewal_twins,
    values.build_threshold_twins,
    adaptive.build_pegasus_twins,
    adaptive.build_window_twins,
    adaptive.build_sparse_twins,
    memory.build_user_table_twins,
    local.build_report_twins,
    local.build_device_twins,
    sketches.every_twin,
)


def every_twin(chance: ExperimentNoise | None = None) -> Iterator[TwinPair]:
    """Build all pairs. With a seeded `chance`, audits of them are repeatable."""
    for build_twins in FAMILIES:
        yield from build_twins(chance or ExperimentNoise())
