"""The parts of ``Control``: one module for every kind of thing that people ask for."""
