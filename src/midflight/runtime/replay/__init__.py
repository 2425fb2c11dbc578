"""Replay: the journal's knowledge of a function's steps, and whether the function still fits it."""
