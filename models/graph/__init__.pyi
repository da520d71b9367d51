from .network import Parameters as Parameters
from .outputs import Output as Output
