"""The live world: the scheduler that was simulated, running real jobs. README.md describes the package."""
