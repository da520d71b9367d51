from .full_size import FULL_SIZE as FULL_SIZE
from .full_size import full_size as full_size
from .full_size import random_full_size as random_full_size
from .inverted import random_blocks as random_blocks
from .residual import Architecture as Architecture
from .residual import skeleton as skeleton
from .synthetic import random_network as random_network
from .synthetic import with_random_weights as with_random_weights
