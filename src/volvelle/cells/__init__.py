"""Cells: GPUs of a node that split into halves, who may have which, and what pools own of them."""
