"""The schedulers that sites have, read from their own commands and files: a folder for each."""
