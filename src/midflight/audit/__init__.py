"""The audit: one record for each control, chained so that a change to it can be found.

``audit_record`` is one record, with the place that its caller came from, and the bound on refusals
of one source; ``chain`` links and checks records.
"""
