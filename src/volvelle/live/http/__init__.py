"""The HTTP API and its client. See README.md."""
