"""The pure rules of a journal: its events, their meaning, and the events that may come next.

No I/O, no clock, no asyncio. ``events`` are stored; ``transition_table`` says which of them a phase
takes; ``fold`` turns a journal into a state; ``requests`` answers a request from a state;
``limits``, ``receipt``, ``preview`` and ``status`` say to people what the state means.
"""
