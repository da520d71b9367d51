from .outputs import Output as Output
from .network import Parameters as Parameters
