"""Slurm: the site as its commands describe it, its scheduler as a policy, forecasts beside a running Slurm.

Slurm's own documentation is the source (slurm.conf(5), the pages on priority, backfill, preemption, resource
limits and reservations), and recorded runs of real daemons are the yardstick.
"""

PARTS: dict[str, dict[str, str]] = {
    "attached": {"slurm": "attach:incumbent"},
    "attaches": {"slurm": "attach_command:slurm"},
    "imports": {"slurm": "site_command:slurm"},
    "policies": {"slurm": "policy"},
}
"""The module of each part, by kind and name."""
