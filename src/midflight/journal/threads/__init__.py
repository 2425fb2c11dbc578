"""Threads: journals of messages, todos, and which run is in front."""
