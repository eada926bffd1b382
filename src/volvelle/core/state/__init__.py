"""The state: tables of jobs, nodes, expected events and the log, with the words of the forward loop.

It belongs to the scheduler and, in a simulated world, holds the truth beside the belief. Kernels move it on
(`volvelle.core.forward`), interpreted over lists or compiled over NumPy arrays: lists are quicker until there
are some thousand events, since nothing is compiled or loaded then. A fork is a copy of the tables.

`table` says what each table is, `tables` has their columns, `registers` the single numbers and codes,
`whole` the state made of them.
"""

from volvelle.core.state.registers import *
from volvelle.core.state.table import *
from volvelle.core.state.tables import *
from volvelle.core.state.whole import *
