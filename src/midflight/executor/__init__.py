"""Drives one run: calls its function, runs its steps, hears what people want, settles, undoes."""
