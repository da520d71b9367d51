from .checks import ExitCheck as ExitCheck
from .network import Parameters as Parameters
from .outputs import Output as Output
