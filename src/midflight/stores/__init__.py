"""The stores of journals: memory, SQLite, Postgres, behind one Protocol (``protocol.Store``)."""
