"""Replay: what the journal knows of a function's steps, and whether it still fits."""
