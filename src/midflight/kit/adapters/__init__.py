"""One program for each runtime under test; ``stage`` and ``tools`` are shared between them.

They run in environments in which Midflight is not installed, so they import this folder alone.
"""
