"""Interruptible agents."""
