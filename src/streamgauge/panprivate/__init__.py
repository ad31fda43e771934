"""Statistics of users whose very memory can be seized: pan-private tables, one claim per file."""

from streamgauge.panprivate.continual_density import ContinualDensity
from streamgauge.panprivate.cropped_mean import CroppedMean
from streamgauge.panprivate.density import Density
from streamgauge.panprivate.estimated import Estimated
from streamgauge.panprivate.heavy_fraction import HeavyFraction
from streamgauge.panprivate.incidence import Incidence
from streamgauge.panprivate.incidences import Incidences
from streamgauge.panprivate.modular_incidence import ModularIncidence
from streamgauge.panprivate.multiplicative_density import MultiplicativeDensity
from streamgauge.panprivate.refusals import NoIntrusionLeft, NoReleaseLeft
from streamgauge.panprivate.table_claim import TableClaim
from streamgauge.panprivate.table_run import TableRun

__all__ = [
    "ContinualDensity",
    "CroppedMean",
    "Density",
    "Estimated",
    "HeavyFraction",
    "Incidence",
    "Incidences",
    "ModularIncidence",
    "MultiplicativeDensity",
    "NoIntrusionLeft",
    "NoReleaseLeft",
    "TableClaim",
    "TableRun",
]
