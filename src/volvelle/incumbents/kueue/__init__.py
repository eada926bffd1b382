"""Kueue: the objects of a cluster, and the decisions of its scheduler as a policy.

Kueue's documentation is the source; where it is silent, the rules are those of its scheduler's own tests
(v0.20 in development), which are golden cases (``tests/golden/test_kueue.py``).
"""

PARTS: dict[str, dict[str, str]] = {
    "attached": {"kueue": "attach:incumbent"},
    "attaches": {"kueue": "attach_command:kueue"},
    "imports": {"kueue": "site_command:kueue"},
    "policies": {"kueue": "policy"},
}
"""The module of each part, by kind and name."""
