from .export import onnx_bytes as onnx_bytes
from .export import write_onnx as write_onnx
from .processor import processor_name as processor_name
from .rewriting import rewritten as rewritten
from .survey import survey as survey
from .timing import measure_stages as measure_stages
from .timing import measured_on as measured_on
from .timing import peak_bytes as peak_bytes
