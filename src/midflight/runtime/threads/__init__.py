"""The thread of a run: messages, what is done about them, and what comes next."""
