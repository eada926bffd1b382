"""Admission: who may enter."""
