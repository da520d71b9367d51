from .evolution import Evolution as Evolution
from .plan import COUNTS_FILE as COUNTS_FILE
from .plan import PLAN_FILE as PLAN_FILE
from .plan import Plan as Plan
from .plan import deployed as deployed
from .tune import Tuning as Tuning
from .tune import weight_file as weight_file
