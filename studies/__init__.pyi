from .catalogue import STUDIES as STUDIES
from .catalogue import find_study as find_study
from .running.answers import AnswerFile as AnswerFile
from .running.study import Size as Size
from .running.study import Study as Study
from .running.study import run_study as run_study
from .running.study import study_files as study_files
from .statements import tally_text as tally_text
