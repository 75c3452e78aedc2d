"""Run jaxtop as `python -m jaxtop`."""

import sys

from jaxtop.cli import main

sys.exit(main())
