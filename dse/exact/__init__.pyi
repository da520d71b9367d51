from .model import LayerCycles as LayerCycles
from .model import LayerJob as LayerJob
from .model import Machine as Machine
from .model import job_cycles as job_cycles
