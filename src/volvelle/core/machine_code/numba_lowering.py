"""How Numba makes IR of kernels: what others hold is not counted, and each kernel is made once.

Numba counts a reference for every name of an array, also where an argument gets a name of its own and where a
field of a named tuple is read. Such counts were half of the optimised IR of a kernel that takes tables as
named tuples, and LLVM optimises nothing across them.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import ir, types
from numba.core.lowering import Lower
from numba.core.typed_passes import NativeLowering

_CALL = ""
"""Stands for who holds something all through a call: the caller, or a variable that is let go at its end."""

_STAGE: Any = NativeLowering


class _Lowering(Lower):
    """Lowering of one function in which borrowed variables are neither counted nor let go.

    Variables of the first block are let go when the function returns, so that others can borrow from them.
    """

    def init(self) -> None:
        super().init()
        self._borrowed, self._kept = frozenset[str](), frozenset[str]()
        if not self.func_ir.func_id.is_generator:
            blocks, local = self.func_ir.blocks, self._singly_assigned_vars
            first = _begun_by(blocks)
            self._borrowed = borrowed(blocks, self.fndesc.typemap, first, local)
            self._kept = first - self._borrowed
            self._singly_assigned_vars = local | first

    def lower_inst(self, inst: Any) -> None:
        """Make IR of an instruction."""
        if isinstance(inst, ir.Assign) and inst.target.name in self._borrowed:
            self._lower_borrowed(inst.target.name, inst.value)
            return
        if isinstance(inst, ir.Del) and (inst.value in self._borrowed or inst.value in self._kept):
            return
        if isinstance(inst, ir.Return):
            for name in sorted(self._kept):
                self.decref(self.typeof(name), self.loadvar(name))
        super().lower_inst(inst)

    def _lower_borrowed(self, name: str, source: Any) -> None:
        if isinstance(source, ir.Arg):
            value = self.fnargs[source.index]
        elif isinstance(source, ir.Var):
            value = self.loadvar(source.name)
        else:
            place = self.typeof(source.value.name).fields.index(source.attr)
            value = self.builder.extract_value(self.loadvar(source.value.name), place)
        if name in self._singly_assigned_vars:
            self._blk_local_varmap[name] = value
        else:
            self._alloca_var(name, self.typeof(name))
            self.builder.store(value, self.getvar(name))


def _assigned_once(blocks: Any) -> set[str]:
    counts = Counter(
        each.target.name for block in blocks.values() for each in block.find_insts(ir.Assign)
    )
    return {name for name, count in counts.items() if count == 1}


def _begun_by(blocks: Any) -> frozenset[str]:
    """The variables that the first block of a function alone assigns; none where it is a loop."""
    place = min(blocks)
    if any(place in block.terminator.get_targets() for block in blocks.values()):
        return frozenset()
    once = _assigned_once(blocks)
    found = (each.target.name for each in blocks[place].find_insts(ir.Assign))
    return frozenset(name for name in found if name in once and not name.startswith("$"))


def borrowed(blocks: Any, kinds: Any, held: frozenset[str], local: set[str]) -> frozenset[str]:
    """The variables that only refer to what another holds for as long as they are used.

    Arguments, copies of variables and fields of named tuples are such, where they are assigned once. kinds:
    types of variables by name. held: those that hold until the function returns. local: those that one block
    alone uses.
    """
    once = _assigned_once(blocks)
    holders = dict.fromkeys(held, _CALL)
    found = set()
    for _, block in sorted(blocks.items()):
        for at, each in enumerate(block.body):
            if not isinstance(each, ir.Assign) or each.target.name not in once:
                continue
            name = each.target.name
            source = _source(each.value, kinds, kinds[name])
            if source is None:
                continue
            holder = holders.get(source, source)
            if holder == _CALL or (name in local and _holds(block.body[at + 1 :], holder, name)):
                holders[name] = holder
                found.add(name)
    return frozenset(found)


def _source(value: Any, kinds: Any, kind: Any) -> str | None:
    """The variable of which ``value``, of a ``kind``, is a part or all; None where it is something else."""
    if isinstance(value, ir.Arg):
        return _CALL if kinds[f"arg.{value.name}"] == kind else None
    if isinstance(value, ir.Var):
        return str(value.name) if kinds[value.name] == kind else None
    if isinstance(value, ir.Expr) and value.op == "getattr":
        of = kinds[value.value.name]
        return str(value.value.name) if isinstance(of, types.BaseNamedTuple) else None
    return None


def _holds(rest: list[Any], holder: str, name: str) -> bool:
    """Whether ``holder`` keeps what it refers to until ``name`` is let go, in the rest of a block."""
    for each in rest:
        if isinstance(each, ir.Del):
            if each.value in (holder, name):
                return bool(each.value == name)
        elif isinstance(each, ir.Assign) and each.target.name == holder:
            return False
    return False


def for_any_numbers(kernel: Any) -> None:
    """Let calls of ``kernel`` be made for all numbers: not once more for each that stands in a call."""
    made = kernel.get_call_template

    def call_template(args: Any, kws: Any) -> Any:
        numbers = {name: _any_number(kind) for name, kind in kws.items()}
        return made(tuple(map(_any_number, args)), numbers)

    kernel.get_call_template = call_template


def _any_number(kind: Any) -> Any:
    is_number = isinstance(kind, types.IntegerLiteral | types.BooleanLiteral)
    return types.unliteral(kind) if is_number else kind


@contextmanager
def lowered() -> Iterator[None]:
    """Within, Numba makes IR in this way."""
    before, _STAGE.lowering_class = _STAGE.lowering_class, property(lambda self: _Lowering)
    try:
        yield
    finally:
        _STAGE.lowering_class = before
