"""The pure kernel: what a journal may hold, what it means, and what may come next.

No I/O, no clock, no asyncio. ``events`` are what is stored; ``machine`` says which of them a phase
takes; ``fold`` turns a journal into a state; ``decide`` answers a request from a state; ``limits``,
``receipt``, ``preview`` and ``diff`` say to people what the state means.
"""
