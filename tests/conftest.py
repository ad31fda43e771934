"""Law modules share their catalogue by plain import; property tests repeat themselves exactly."""

import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent / "laws"))
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
