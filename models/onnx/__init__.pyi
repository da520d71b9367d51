from .export import build_onnx as build_onnx
from .export import onnx_bytes as onnx_bytes
from .export import write_onnx as write_onnx
from .from_torch import from_torch as from_torch
from .reader import OPERATORS as OPERATORS
from .reader import read_model as read_model
from .reader import read_onnx as read_onnx
from .rewriting import rewritten as rewritten
