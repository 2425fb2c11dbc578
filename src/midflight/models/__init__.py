"""Language models behind one Protocol: prompts, answers in pieces, and their cost."""
