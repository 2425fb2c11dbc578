"""The front doors: each translates between people or programs and the client."""
