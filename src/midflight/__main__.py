"""``python -m midflight`` is the command ``midflight``."""

import sys

from midflight.cli.main import main

sys.exit(main())
