"""The thread of a run: its messages, the choices about them, and the next run."""
