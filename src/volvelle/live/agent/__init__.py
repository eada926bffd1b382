"""The node agent: starts and stops the tasks of a node, and reports on them. See README.md."""
