"""Migrations of the schema: one module in `versions` for each version, run by Alembic."""
