from .confidences import read_confidence_file as read_confidence_file
from .recorded import Recorded as Recorded
from .rule import ExitRule as ExitRule
from .rule import RuledExits as RuledExits
from .rule import Seen as Seen
from .rule import StageCosts as StageCosts
from .rule import Threshold as Threshold
