"""Engines see to it that every run has a driver. Safety comes from the journal, not from them."""
