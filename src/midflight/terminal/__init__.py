"""What a terminal shows of a run: shared by the commands and by the app. Needs no extra."""
