"""Commands and functions in processes of their own, which can be ended for certain."""
