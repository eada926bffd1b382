"""Idle GPUs of pools, used without harm to their owners (anticipatory scheduling; the paper's SIA).

The paper: "Anticipatory Resource Allocation for ML Training". Its system is called ``anticipatory`` here,
since another system has the name Sia.
"""

PARTS = {
    "policies": {
        "anticipatory": "coarse",
        "anticipatory-vc": "policy",
        "fcfs-pools": "sharing",
        "gssf": "sharing",
        "hived-nonpreemptive": "hived",
        "mmfs": "sharing",
        "ssf": "sharing",
    },
    "estimators": {
        "bins": "bins",
    },
    "commands": {"train-arrivals": "command:train_arrivals"},
    "generators": {
        "anticipatory": "generator",
    },
}
"""The module of each part, by kind and name."""
