"""Tuning: compositions chosen by looking ahead."""
