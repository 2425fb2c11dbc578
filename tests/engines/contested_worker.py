"""``midflight`` as it is, but for its store: to it every other driver is gone, see ``contested``.

python contested_worker.py worker MODULE:AGENT --engine restate …
"""

from __future__ import annotations

import sys

from engines.contested import Thief
from midflight.interfaces.cli.main import main
from midflight.stores.postgres import postgres_store

if __name__ == "__main__":
    postgres_store.PostgresStore = Thief  # type: ignore[misc]
    sys.exit(main())
