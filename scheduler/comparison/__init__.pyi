from .compare import Comparison as Comparison
from .decision_log import record as record
from .decision_log import replay as replay
from .serving import Truth as Truth
from .serving import serve_stream as serve_stream
from .sources import Source as Source
from .streams import StreamComparison as StreamComparison
from .streams import compare_streams as compare_streams
