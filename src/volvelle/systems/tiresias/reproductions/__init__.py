"""Policies as simulators have them, where these depart from the papers: to compare results job by job.

The policy of the paper is in the module of its name; what stands here is only what differs.
"""

from volvelle.systems.tiresias.reproductions import gittins, shortest, tiresias

__all__ = ["gittins", "shortest", "tiresias"]
