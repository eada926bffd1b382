"""Control: the single-writer controller, its state, and its cycle. See README.md."""
