"""Placements: which GPUs."""
