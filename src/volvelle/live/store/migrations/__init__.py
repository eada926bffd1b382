"""How the tables came to be as they are: one module in `versions` for each version, run by Alembic."""
