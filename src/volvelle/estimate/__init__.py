"""Estimators: what we believe about jobs."""
