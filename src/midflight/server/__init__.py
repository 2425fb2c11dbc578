"""Runs over HTTP: verbs, state, one event stream, access. Translates; Control and kernel decide."""
