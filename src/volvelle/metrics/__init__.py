"""Metrics: from the journal of a run to the numbers of the papers.

    journal --recorder--> Outcomes --per_job, fairness, deadlines--> a number for each job
                              |------series--> Steps, a quantity over time
                              '------baseline (with another run's Outcomes)--> gains and losses
    catalogue: every metric by name, ``jct:p99``     summary: metrics.json     jobs_table: jobs.csv

All of it is a function of `Outcomes`: nothing here knows whether the run was simulated, live or
replayed.
"""
