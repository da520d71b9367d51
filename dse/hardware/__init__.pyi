from .array import pool_beats as pool_beats
from .clock import told_clock as told_clock
from .layer import LayerGeometry as LayerGeometry
from .pooling import pooled_beats as pooled_beats
from .pooling import poolings as poolings
from .roofline import roofline_cycles as roofline_cycles
from .row_buffer import InputRows as InputRows
from .row_buffer import needed_bytes as needed_bytes
