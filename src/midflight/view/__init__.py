"""Sheets of runs and threads, which front doors show: folded from records, with their changes.

``RunBook`` and ``ThreadBook`` take the records of a journal one by one and give a sheet; ``patch``
tells what has changed from one to the next. No server is needed for any of it.
"""

from midflight.view.data import WORDS, RunSheet, Sheet, StepSheet, ThreadSheet, patch
from midflight.view.run_book import RunBook, ThreadBook

__all__ = [
    "WORDS",
    "RunBook",
    "RunSheet",
    "Sheet",
    "StepSheet",
    "ThreadBook",
    "ThreadSheet",
    "patch",
]
