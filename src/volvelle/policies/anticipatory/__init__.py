"""Idle GPUs of pools, used without harm to their owners (anticipatory scheduling; the paper's SIA).

The paper: "Anticipatory Resource Allocation for ML Training". Its system is called ``anticipatory`` here,
since another system has the name Sia.
"""

from volvelle.policies.anticipatory.coarse import Anticipatory
from volvelle.policies.anticipatory.hived import HivedNonpreemptive
from volvelle.policies.anticipatory.oracle import OracleJobs, OracleSchedule, best_schedule
from volvelle.policies.anticipatory.policy import AnticipatoryVc
from volvelle.policies.anticipatory.sharing import FcfsPools, Gssf, Mmfs, Ssf

__all__ = [
    "Anticipatory",
    "AnticipatoryVc",
    "FcfsPools",
    "Gssf",
    "HivedNonpreemptive",
    "Mmfs",
    "OracleJobs",
    "OracleSchedule",
    "Ssf",
    "best_schedule",
]
