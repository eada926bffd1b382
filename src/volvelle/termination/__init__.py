"""Termination: when a job has what it came for."""
