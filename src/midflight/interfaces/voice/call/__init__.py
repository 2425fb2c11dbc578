"""Calls: a line, the pages on it, and its wire format."""
