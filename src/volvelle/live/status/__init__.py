"""Status: what the controller publishes after each cycle. See README.md."""
