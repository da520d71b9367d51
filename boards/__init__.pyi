from .board import STRIPES as STRIPES
from .board import Board as Board
from .board import BoardFileError as BoardFileError
from .board import Dram as Dram
from .board import Sensor as Sensor
from .board import list_boards as list_boards
from .board import load_board as load_board
