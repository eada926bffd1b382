"""The interface of `import volvelle` in a notebook or a script: the commands as functions.

`volvelle.read`, `generate`, `Cluster`, `simulate`, `compare`, `tune` and `connect` do what the commands of
these names do, by the same code, and give values that show themselves and go to data frames.
"""
