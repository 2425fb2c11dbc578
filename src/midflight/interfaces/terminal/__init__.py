"""The terminal's view of a run, shared by the commands and by the app. It needs no extra."""
