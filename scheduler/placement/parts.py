"""The parts of the planner, for studies and fleets that look inside: `placement.parts.best_pipeline`."""

from __future__ import annotations

from ..errors import PlacementError as PlacementError
from .dynamic import best_pipeline as best_pipeline
from .dynamic import cheapest_pipeline as cheapest_pipeline
from .forecast import FORECASTS as FORECASTS
from .forecast import DriftDetector as DriftDetector
from .forecast import make_forecast as make_forecast
from .holding import carried as carried
from .integer import best_mix as best_mix
from .load import Load as Load
from .load import head_load as head_load
from .load import loads as loads
from .options import NS as NS
from .options import Space as Space
from .options import expected_ns as expected_ns
from .options import whole_options as whole_options
from .replanning import Replanner as Replanner
from .replanning import Straggler as Straggler
from .replanning import with_rates as with_rates
from .turns import Turns as Turns
from .twin import Fault as Fault
from .twin import serve_stream as serve_stream
