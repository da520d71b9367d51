from .graph import ROWS as ROWS
from .graph import Tail as Tail
from .stored import facts_of as facts_of
from .stored import tail_of as tail_of
