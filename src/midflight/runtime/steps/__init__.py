"""A step: its preconditions, its attempts, what follows from doubt, and its undo."""
