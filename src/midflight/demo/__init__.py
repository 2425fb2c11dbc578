"""``midflight demo``: a real agent on data that it makes up, to be interrupted by whoever watches.

An analyst looks for customers who may leave, makes follow-up tasks, writes a memo with a chart and
sends it. Everything is built on the public API: what it does, an agent of yours can.
"""
