from .model import LayerCost as LayerCost
from .model import LayerCycles as LayerCycles
from .model import LayerJob as LayerJob
from .model import Machine as Machine
from .model import job_cycles as job_cycles
from .model import layer_cost as layer_cost
