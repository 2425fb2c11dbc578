"""The command ``midflight``: see ``main.py``."""
