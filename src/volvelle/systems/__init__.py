"""Published systems: one package for each, with all that it brings."""
