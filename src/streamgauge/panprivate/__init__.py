"""Statistics of users whose memory is private at all times, one claim per file.

validation                checks of settings, and refusals of a run
users                     table entries of a batch of users
run                       a claim, its noisy table and its noise
mechanism                 the base classes of all claims
randomised_response       the two laws of a bit
error_bounds              intervals of estimates
estimate                  a release: value, standard error, interval
occupancy                 users in shared cells
density                   share of users who came
multiplicative_density    the same up to a factor
sign_bits                 signs of first appearances
continual_density         share of users who came, at every tick
cycle                     visit counts modulo t
visit_counts              cropped mean, heavy fraction, incidence
collisions                visit counts from shared cells
modular_incidence         incidence modulo k, with deletions
intrusion_demo            the view of an intruder, rehearsed
"""

from streamgauge.continual.run import LimitExceededError
from streamgauge.panprivate.continual_density import ContinualDensity
from streamgauge.panprivate.density import Density
from streamgauge.panprivate.estimate import PanPrivateEstimate
from streamgauge.panprivate.mechanism import TableMechanism
from streamgauge.panprivate.modular_incidence import IncidenceHistogram, ModularIncidence
from streamgauge.panprivate.multiplicative_density import MultiplicativeDensity
from streamgauge.panprivate.run import TableRun
from streamgauge.panprivate.visit_counts import CroppedMean, HeavyFraction, Incidence

__all__ = [
    "ContinualDensity",
    "CroppedMean",
    "Density",
    "HeavyFraction",
    "Incidence",
    "IncidenceHistogram",
    "LimitExceededError",
    "ModularIncidence",
    "MultiplicativeDensity",
    "PanPrivateEstimate",
    "TableMechanism",
    "TableRun",
]
