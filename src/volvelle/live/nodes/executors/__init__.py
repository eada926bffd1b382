"""Executors, one module each: processes of this machine, agents that dial in, Ray."""
