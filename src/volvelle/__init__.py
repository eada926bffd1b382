"""Volvelle: a scheduler for GPU clusters that train models. It simulates, predicts, tunes and runs."""

__version__ = "0.1.0"
