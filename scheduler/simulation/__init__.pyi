from .bound import least_p99_ns as least_p99_ns
from .bound import least_violations as least_violations
from .metrics import Interval as Interval
from .metrics import interval as interval
from .metrics import merge_metrics as merge_metrics
from .traffic import halve_early_exits as halve_early_exits
from .traffic import requests_at as requests_at
