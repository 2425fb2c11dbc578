"""The runtime drives one run: it calls the agent's function, does its steps and hears people."""
