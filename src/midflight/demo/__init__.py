"""``midflight demo``: a real agent on made-up data, for people to watch and to interrupt.

An analyst looks for customers who may leave, makes follow-up tasks, writes a memo with a chart and
sends it. Everything is built on the public API, so an agent of yours can do the same.
"""
