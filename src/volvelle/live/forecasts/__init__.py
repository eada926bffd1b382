"""Forecasts: when jobs will start and finish, what-if questions, and suggestions. See README.md."""
