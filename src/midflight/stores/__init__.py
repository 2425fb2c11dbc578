"""Where journals live: memory, SQLite, Postgres, behind one Protocol (``protocol.Store``)."""
