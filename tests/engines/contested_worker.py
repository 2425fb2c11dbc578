"""``midflight`` as it is, but for its store: to it every other driver is gone, see ``contested``.

python contested_worker.py worker MODULE:AGENT --engine restate …
"""

from __future__ import annotations

import sys

from engines.contested import Thief
from midflight.interfaces.cli.main import main
from midflight.stores import postgres

if __name__ == "__main__":
    postgres.PostgresStore = Thief  # type: ignore[misc]
    sys.exit(main())
