from .graph import OPERATORS as OPERATORS
from .graph import ROWS as ROWS
from .graph import Tail as Tail
from .graph import TailOutput as TailOutput
from .stored import facts_of as facts_of
from .stored import tail_of as tail_of
