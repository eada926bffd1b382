"""Nodes: executors, the agents server, and the coordination of attempts over nodes. See README.md."""
