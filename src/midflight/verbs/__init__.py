"""What ``Control`` is made of: one module for every kind of thing that people ask for."""
