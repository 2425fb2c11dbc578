"""Tools for agents: functions, shells and programs that can be stopped for certain."""
