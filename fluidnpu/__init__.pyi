__version__: str

from .boards import load_board as load_board
from .dse import Design as Design
from .dse import explore as explore
from .hls import compile_program as compile_program
from .hls import csim_network as csim_network
from .hls import render_project as render_project
from .hls import write_project as write_project
from .host import Bundle as Bundle
from .host import Driver as Driver
from .host import Server as Server
from .host import open_device as open_device
from .host import serve_requests as serve_requests
from .host.oip import connect as connect
from .models import LayerShape as LayerShape
from .models import Network as Network
from .models import Workload as Workload
from .models import quantise as quantise
from .models import read_model as read_model
from .models import read_onnx as read_onnx
from .scheduler import Serving as Serving
from .scheduler import compare as compare
from .scheduler import make_policy as make_policy
from .scheduler import measure as measure
from .scheduler import poisson as poisson
from .scheduler import simulate as simulate
