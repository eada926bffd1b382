"""Tuning: searches for the parameters that trade objectives off best."""
