"""A folder that no path leads out of, and reading and replacing the files in it."""
