from .locking import one_writer as one_writer
from .reading import read_text as read_text
from .reading import regular_file as regular_file
from .writing import check_place as check_place
from .writing import is_leftover as is_leftover
from .writing import naming as naming
from .writing import write_file as write_file
from .writing import write_files as write_files
