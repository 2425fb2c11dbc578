"""What agents act with: functions, shells and programs that can be stopped for certain."""
