from .calibration import import_reports as import_reports
from .platform import NPU_CELL as NPU_CELL
from .platform import NPU_VLNV as NPU_VLNV
from .platform import PLATFORMS as PLATFORMS
from .writing import check_folder as check_folder
