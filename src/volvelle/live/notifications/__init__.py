"""Webhooks and mail: what is told to whom, and its delivery. README.md describes the package."""
