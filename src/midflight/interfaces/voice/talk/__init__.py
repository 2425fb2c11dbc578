"""The talk between a person and a thread: verbs, answers, and what is read out."""
