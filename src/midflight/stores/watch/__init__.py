"""Watchers of journals: they are told of commits, and of the words that steps say meanwhile."""
