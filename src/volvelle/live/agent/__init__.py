"""The agent of a node: carries orders out there and says what became of them.

::

    controller's side ◀──dials in── agent ──▶ keeper ──▶ the job's processes
    (`agents_server`)               (one a     (one an     (a session of their own)
                                     node)      attempt)
                                      │            │            │
                                      └────── the attempt's folder ┘
                                        page, order, output, exit

Each may be killed and the others go on: the agent keeps nothing that is not in its folder, the keeper holds a
lock on the attempt's folder as long as anything of it runs, the job sees only its page. The modules: `keeper`
(the program that starts, waits and sweeps), `folder` (what stands where), `processes` (who runs), `attempt`
(one attempt on this node, from its order to its end), `agent` (all of them), `link` (the connection).

How an agent comes to be on a node is not its concern: executors see to that.
"""
