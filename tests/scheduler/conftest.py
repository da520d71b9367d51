"""Makes the helper module of this folder importable whatever the rootdir."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
