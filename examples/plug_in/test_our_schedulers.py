"""pytest examples/plug_in, once the package is installed: its parts keep what all parts promise."""

from volvelle.testing import check_metric, check_placement, check_policy


def test_our_policy_keeps_what_every_policy_promises():
    check_policy("narrow-first")


def test_our_placement_keeps_what_every_placement_promises():
    check_placement("last-free")


def test_our_metric_keeps_what_every_metric_promises():
    check_metric("waiting_share")
