"""Webhooks and mail: notifications, their targets, and their delivery. README.md describes the package."""
