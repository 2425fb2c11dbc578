"""Turn-taking: the table, the ear, and the actions that the table orders."""
