"""The audit: one record for each control, chained so that a change to it can be found.

``record`` is what a record holds, ``visit`` where a caller came from, ``chain`` how records are
linked and checked, ``flood`` how many refusals of one source are recorded.
"""
