"""Policies: who gets how many GPUs now. One module for each published scheduler."""
