"""Watchers of journals: who is told of what was committed, and of what steps say meanwhile."""
