"""The audit: one record for each control, chained so that a change to it can be found.

``audit_record`` is one record, with the place that its caller came from; ``chain`` links and checks
records; ``flood`` bounds how many refusals of one source are recorded.
"""
