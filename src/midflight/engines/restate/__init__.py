"""Runs placed on machines by Restate."""
