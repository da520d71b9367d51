from .calibration import import_reports as import_reports
from .platform import NPU_CELL as NPU_CELL
from .platform import NPU_VLNV as NPU_VLNV
from .platform import PLATFORMS as PLATFORMS
from .writing import check_folder as check_folder
from .writing import is_whole as is_whole
from .writing import project_folder as project_folder
