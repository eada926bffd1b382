"""Helios' scheduling service QSSF: quasi-shortest-service-first (Hu et al., SC'21).

Jobs are served by the GPU time that they are expected to take, GPUs times run time, and never preempted;
where the first of them does not fit, nobody starts. Expectations come from the past: of the user's jobs with
the same name, or with similar ones, on as many GPUs (the estimator `similar-names`).

The whole text of the paper was not at hand: the rules are those of the public artifact. Departures: its other
half, gradient-boosted trees over earlier months of a trace, which weighs nine tenths there, is not built
(its features are of one site); newcomers are expected as all others are (the artifact sorts them by GPUs
first); its virtual clusters are scheduled one by one, where pools with quotas share one queue here.
"""

PARTS = {
    "policies": {
        "qssf": "policy",
    },
    "estimators": {
        "similar-names": "estimator",
    },
}
"""The module of each part, by kind and name."""
