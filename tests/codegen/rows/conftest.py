"""The shared programs are imported by name; pytest puts no folder of tests on the path."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
