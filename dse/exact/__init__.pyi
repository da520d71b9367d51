from .model import LayerCycles as LayerCycles
from .model import LayerJob as LayerJob
from .model import LayerTraffic as LayerTraffic
from .model import Machine as Machine
from .model import job_cycles as job_cycles
from .model import job_traffic as job_traffic
