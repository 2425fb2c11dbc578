"""Commands: ``midflight serve`` and ``midflight token``."""
