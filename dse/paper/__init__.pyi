from .ablation import ablation as ablation
from .latency import pool_cycles as pool_cycles
from .latency import stage_latency as stage_latency
from .model import Batching as Batching
from .model import layer_ticks as layer_ticks
from .model import total_ticks as total_ticks
