"""Access to the server: connections, keys, quotas, and the audit of refusals."""
