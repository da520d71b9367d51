from .calibration import import_reports as import_reports
from .platform import NPU_CELL as NPU_CELL
from .platform import NPU_VLNV as NPU_VLNV
from .platform import PLATFORMS as PLATFORMS
from .platform import PS_CLOCK_MHZ as PS_CLOCK_MHZ
from .platform import STATUS_LINES as STATUS_LINES
from .platform import STATUS_SIGNATURE as STATUS_SIGNATURE
from .writing import check_folder as check_folder
