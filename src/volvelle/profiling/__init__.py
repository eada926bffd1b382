"""The rules of a profiling partition, for the simulated and the live world (Chronus, SoCC'21, 3.2)."""
