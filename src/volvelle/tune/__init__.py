"""Tuning: searches for the parameters that trade objectives off best."""

from volvelle.callable_room import make_callable

make_callable(__name__, "volvelle.notebook.search", "tune")
