"""``python -m midflight`` is the command ``midflight``."""

import sys

from midflight.interfaces.cli.main import main

sys.exit(main())
