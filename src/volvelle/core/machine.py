"""The forward loop as machine code: what the state is to Numba.

Imported only where something is compiled, since it loads Numba. To machine code the state is a block of
words: for each table and array where its numbers lie, how many they are and how far apart. Python owns the
arrays and writes the words (`Machine`); nothing is counted or freed in between, so a number is one load away.

Kernels of policies and placements are functions of one fixed type each, whose addresses are words too: the
loop is compiled once for all of them.
"""

import operator
from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

import numpy as np
from numba import carray
from numba.core import cgutils, types
from numba.core.datamodel import models, register_default
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer_global, signature
from numba.extending import (
    infer_getattr,
    intrinsic,
    lower_builtin,
    lower_getattr_generic,
    overload,
    overload_method,
)

from volvelle.core import columns
from volvelle.core.compiled import TYPES, kernel, machine_code, names_in
from volvelle.core.fill import TARGET, TARGET_REASON, TARGET_TYPE, ClusterNow
from volvelle.core.forward.advance import advance
from volvelle.core.forward.believe import believe, expect_ends
from volvelle.core.forward.foresee import foresee
from volvelle.core.state import (
    ARRAYS,
    COLUMNS,
    KNOWN_COLUMNS,
    TABLES,
    Cube,
    Floats,
    Ints,
    Jobs,
    Matrix,
    Pools,
    Reason,
    Rules,
    State,
    StateTable,
    Types,
    array_of,
)

_WORD = 8  # bytes, also of every number
_CURVE = Jobs.float_columns.index("curve")


# ---------------------------------------------------------------------- numbers at an address


class _Block(types.Type):
    """Numbers of a ``kind`` at an address. dimensions: 1, indexed by place; 2, by column; 3, by the first."""

    def __init__(self, kind: Any, dimensions: int = 1) -> None:
        self.kind, self.dimensions = kind, dimensions
        super().__init__(f"Block({kind}, {dimensions})")


class _Words(types.Type):
    """The words of a table or, without a ``table``, of the whole state."""

    def __init__(self, table: type[StateTable] | None) -> None:
        self.table = table
        super().__init__(f"Words({table.__name__ if table else 'State'})")


@register_default(_Block)
class _BlockModel(models.StructModel):
    """Where it begins; how many entries it has and how many bytes they are apart, by dimension."""

    def __init__(self, manager: Any, block: _Block) -> None:
        members = [("at", types.uintp)]
        for dimension in range(block.dimensions):
            members += [(f"size{dimension}", types.intp), (f"step{dimension}", types.intp)]
        super().__init__(manager, block, members)


@register_default(_Words)
class _WordsModel(models.StructModel):
    def __init__(self, manager: Any, words: _Words) -> None:
        super().__init__(manager, words, [("at", types.uintp)])


_FLOATS, _INTS = _Block(types.float64), _Block(types.int64)
_INT_COLUMNS = _Block(types.int64, 2)
TYPES.update({kind: _Words(kind) for kind in TABLES.values()})
TYPES.update(
    {
        State: _Words(None),
        Rules: types.NamedTuple(
            [
                {bool: types.boolean, int: types.int64, float: types.float64}[kind]
                for kind in Rules.__annotations__.values()
            ],
            Rules,
        ),
        Floats: _FLOATS,
        Ints: _INTS,
        Matrix: _Block(types.float64, 2),
        Cube: _Block(types.float64, 3),
        float: types.float64,
        int: types.int64,
        bool: types.boolean,
        None: types.void,
    }
)

# ---------------------------------------------------------------------- the words

_TABLE_WORDS = 5  # floats, their step, ints, their step, how many
_KERNELS: dict[str, tuple[Any, ...]] = {
    "key": (None, Jobs, Ints, int, int, float, Floats),
    "queue_of": (int, Jobs, int, Cube, Floats),
    "serve": (None, State),
    "allocate": (float, Jobs, Ints, int, float, Types, Pools, Cube, Floats),
    "place": (bool, Ints, int, Ints),
}
"""What each kernel returns and takes: see `volvelle.core.policy` and `volvelle.core.parts`."""


def _places() -> dict[str, int]:
    """Where the words of each table, array and kernel begin."""
    places, at = {}, 0
    for name in TABLES:
        places[name], at = at, at + _TABLE_WORDS
    for name, (_, _, dimensions) in ARRAYS.items():
        places[name], at = at, at + 1 + 2 * dimensions
    for name in _KERNELS:
        places[name], at = at, at + 1
    return places | {"": at}


_PLACES = _places()


def _word(context: Any, builder: Any, at: Any, place: int) -> Any:
    """The word at a place; words do not change while machine code runs."""
    word = context.get_value_type(types.intp)
    pointer = builder.inttoptr(builder.add(at, at.type(place * _WORD)), word.as_pointer())
    loaded = builder.load(pointer)
    loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
    return loaded


def _block(context: Any, builder: Any, kind: _Block, at: Any, *shape: Any) -> Any:
    value = cgutils.create_struct_proxy(kind)(context, builder)
    value.at = at
    for dimension in range(kind.dimensions):
        setattr(value, f"size{dimension}", shape[2 * dimension])
        setattr(value, f"step{dimension}", shape[2 * dimension + 1])
    return value._getvalue()


@infer_getattr
class _WordsAttributes(AttributeTemplate):
    key = _Words

    def generic_resolve(self, words: _Words, attribute: str) -> Any:
        """The type of a table or an array of the state, or of a column of a table."""
        if words.table is None:
            if attribute in TABLES:
                return TYPES[TABLES[attribute]]
            return TYPES[ARRAYS[attribute][0]] if attribute in ARRAYS else None
        if attribute == "floats":
            return TYPES[Matrix]
        if attribute == "ints":
            return _INT_COLUMNS
        if attribute in words.table.float_columns:
            return _FLOATS
        return _INTS if attribute in words.table.int_columns else None


@lower_getattr_generic(_Words)
def _attribute(context: Any, builder: Any, words: _Words, value: Any, attribute: str) -> Any:
    at = cgutils.create_struct_proxy(words)(context, builder, value=value).at
    if words.table is None:
        place = _PLACES[attribute]
        if attribute in TABLES:
            table = cgutils.create_struct_proxy(TYPES[TABLES[attribute]])(context, builder)
            table.at = builder.add(at, at.type(place * _WORD))
            return table._getvalue()
        kind = TYPES[ARRAYS[attribute][0]]
        count = 1 + 2 * kind.dimensions
        return _block(
            context, builder, kind, *(_word(context, builder, at, place + i) for i in range(count))
        )
    floats, step, ints, ints_step, size = (
        _word(context, builder, at, i) for i in range(_TABLE_WORDS)
    )
    number = at.type(_WORD)
    if attribute == "floats":
        many = builder.sdiv(step, number)
        return _block(context, builder, TYPES[Matrix], floats, many, number, size, step)
    if attribute == "ints":
        many = builder.sdiv(ints_step, number)
        return _block(context, builder, _INT_COLUMNS, ints, many, number, size, ints_step)
    names, begin, kind = words.table.float_columns, floats, _FLOATS
    if attribute in words.table.int_columns:
        names, begin, step, kind = words.table.int_columns, ints, ints_step, _INTS
    begin = builder.add(begin, at.type(names.index(attribute) * _WORD))
    return _block(context, builder, kind, begin, size, step)


# ---------------------------------------------------------------------- entries of blocks


@infer_global(operator.getitem)
class _GetItem(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        """A number, or a block of one dimension less."""
        block, index = args
        if not (isinstance(block, _Block) and isinstance(index, types.Integer)):
            return None
        entry = block.kind if block.dimensions == 1 else _Block(block.kind, block.dimensions - 1)
        return signature(entry, block, types.intp)


@infer_global(operator.setitem)
class _SetItem(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        """A number into a block of one dimension."""
        block, index, _ = args
        if not (isinstance(block, _Block) and isinstance(index, types.Integer)):
            return None
        return signature(types.void, block, types.intp, block.kind)


@infer_global(len)
class _Len(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        """How many entries a block has in its first dimension."""
        return signature(types.intp, *args) if isinstance(args[0], _Block) else None


def _entry(context: Any, builder: Any, block: _Block, value: Any, index: Any) -> tuple[Any, Any]:
    """The block in parts, and the address of one of its entries."""
    parts = cgutils.create_struct_proxy(block)(context, builder, value=value)
    return parts, builder.add(parts.at, builder.mul(index, parts.step0))


@lower_builtin(operator.getitem, _Block, types.intp)
def _getitem(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    block = sig.args[0]
    parts, at = _entry(context, builder, block, *args)
    if block.dimensions == 1:
        return builder.load(builder.inttoptr(at, context.get_value_type(block.kind).as_pointer()))
    shape = [
        getattr(parts, f"{part}{dimension}")
        for dimension in range(1, block.dimensions)
        for part in ("size", "step")
    ]
    return _block(context, builder, sig.return_type, at, *shape)


@lower_builtin(operator.setitem, _Block, types.intp, types.Any)
def _setitem(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    block, (value, index, number) = sig.args[0], args
    _, at = _entry(context, builder, block, value, index)
    pointer = builder.inttoptr(at, context.get_value_type(block.kind).as_pointer())
    builder.store(context.cast(builder, number, sig.args[2], block.kind), pointer)
    return context.get_dummy_value()


@lower_builtin(len, _Block)
def _len(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return cgutils.create_struct_proxy(sig.args[0])(context, builder, value=args[0]).size0


# ---------------------------------------------------------------------- kernels


def _kernel_signature(name: str) -> Any:
    returned, *taken = _KERNELS[name]
    return TYPES[returned](*(TYPES[each] for each in taken))


def _method(name: str) -> None:
    """Let machine code call ``s.key(...)`` and the like, by the address among the words."""
    sig = _kernel_signature(name)

    def generate(context: Any, builder: Any, called: Any, args: Any) -> Any:
        words, given = args[0], cgutils.unpack_tuple(builder, args[1])
        at = cgutils.create_struct_proxy(called.args[0])(context, builder, value=words).at
        convention = context.call_conv
        pointer = builder.inttoptr(
            _word(context, builder, at, _PLACES[name]),
            convention.get_function_type(sig.return_type, sig.args).as_pointer(),
        )
        given = [
            context.cast(builder, value, kind, wanted)
            for value, kind, wanted in zip(given, called.args[1], sig.args, strict=True)
        ]
        status, result = convention.call_function(
            builder, pointer, sig.return_type, sig.args, given
        )
        with cgutils.if_unlikely(builder, status.is_error):
            convention.return_status_propagate(builder, status)
        return context.get_dummy_value() if sig.return_type == types.void else result

    @intrinsic
    def call(typing: Any, words: Any, given: Any) -> Any:
        return sig.return_type(words, given), generate

    @overload_method(_Words, name)
    def method(words, *given):  # type: ignore[no-untyped-def] # the arguments of the lambda
        return lambda words, *given: call(words, given)


for _name in _KERNELS:
    _method(_name)


_POLICY = float(Reason.POLICY)

_columns = np.arange(KNOWN_COLUMNS)
"""In the place of those that a policy looks at."""


@kernel
def _decide(jobs: Any, cluster: ClusterNow, memory: Any, out: Any) -> float:
    """In the place of a policy's own (`volvelle.core.policy.Kernel`)."""
    return np.inf


@intrinsic
def _pointer(typing: Any, block: Any) -> Any:
    """Where a block of floats begins."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        at = cgutils.create_struct_proxy(sig.args[0])(context, builder, value=args[0]).at
        return builder.inttoptr(at, context.get_value_type(sig.return_type))

    return types.CPointer(types.float64)(block), generate


@overload(array_of)
def _array_of(numbers):  # type: ignore[no-untyped-def] # the argument of the lambda
    if isinstance(numbers, _Block):
        return lambda numbers: carray(_pointer(numbers), len(numbers))
    return lambda numbers: numbers


def _allocate(
    jobs: Jobs,
    rows: Ints,
    many: int,
    now: float,
    gpu_types: Types,
    pools: Pools,
    rates: Cube,
    memory: Floats,
) -> float:
    """Give a policy its arrays, take what it decides and writes to columns of its own; when to ask again."""
    own = len(jobs.floats) - COLUMNS
    matrix = np.empty((KNOWN_COLUMNS + own, many))
    for i in range(many):
        row = rows[i]
        for place in _columns:
            matrix[place, i] = jobs.floats[place][row]
        for column in range(own):
            matrix[KNOWN_COLUMNS + column, i] = jobs.floats[COLUMNS + column][row]
        matrix[_CURVE, i] = jobs.table[row]
    capacity, quota = np.empty(len(gpu_types.capacity)), np.empty(len(pools.quota))
    for gpu_type in range(len(capacity)):
        capacity[gpu_type] = gpu_types.capacity[gpu_type]
    for pool in range(len(quota)):
        quota[pool] = pools.quota[pool]
    table = np.zeros((0, 0, 0))
    if len(rates) > 0:
        table = carray(_pointer(rates), (len(rates), len(rates[0]), len(rates[0][0])))
    given = np.zeros((4, many))
    given[3] = np.arange(many)
    cluster = ClusterNow(now, capacity, quota, table)
    ask_at = float(_decide(matrix, cluster, array_of(memory), given))
    by_submission = np.empty(many, np.int64)
    for i in range(many):
        row = rows[i]
        by_submission[i] = row
        for column in range(own):
            jobs.floats[COLUMNS + column][row] = matrix[KNOWN_COLUMNS + column, i]
        jobs.target[row] = given[TARGET, i]
        if given[TARGET, i] > 0.0:
            jobs.target_type[row], jobs.reason[row] = given[TARGET_TYPE, i], given[TARGET_REASON, i]
        else:
            jobs.target_type[row] = -1.0
            jobs.reason[row] = given[TARGET_REASON, i] or _POLICY
    for i in range(many):
        rows[i] = by_submission[int(given[3, i])]
    return ask_at


@cache
def allocating(decide: Any) -> Callable[..., None]:
    """The kernel that lets a policy's ``decide`` allocate.

    Only those columns are gathered that it names; all, where it is not of this package.
    """
    read, ours = names_in(decide), decide.__module__.startswith("volvelle.")
    named = {name: place for name, place in vars(columns).items() if name.isupper()}
    del named["COUNT"]
    looked_at = [place for name, place in named.items() if name in read or not ours]
    names = {**_allocate.__globals__, "_decide": decide, "_columns": np.array(looked_at)}
    made = FunctionType(_allocate.__code__, names, f"{decide.__name__}_allocates")
    made.__module__, made.__qualname__ = decide.__module__, made.__name__
    return kernel(made)


def address(loop: Callable[..., Any], name: str) -> int:
    """Where the machine code of a kernel is."""
    sig = _kernel_signature(name)
    compiled = machine_code(loop, sig).get_compile_result(sig)
    return int(compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name))


# ---------------------------------------------------------------------- from Python


@intrinsic
def _state_at(typing: Any, address: Any) -> Any:
    """The state whose words are at an address."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        words = cgutils.create_struct_proxy(sig.return_type)(context, builder)
        words.at = args[0]
        return words._getvalue()

    return TYPES[State](types.intp), generate


def _advance_at(address: int, rules: Rules, until: float, moments: int) -> int:
    return advance(_state_at(address), rules, until, moments)


def _believe_at(address: int) -> None:
    believe(_state_at(address))


def _expect_ends_at(address: int) -> None:
    expect_ends(_state_at(address))


def _foresee_at(
    address: int, ahead: int, rules: Rules, future: Rules, predicted: Any, told: Any
) -> int:
    return foresee(_state_at(address), _state_at(ahead), rules, future, predicted, told)


class Machine:
    """Machine code for one state over arrays; to be made anew where an array was replaced."""

    def __init__(self, s: State) -> None:
        self._state = s
        words: list[int] = []
        for name in TABLES:
            table = getattr(s, name)
            for part in (table.floats, table.ints):
                words += [part.ctypes.data, len(part) * _WORD]
            words.append(len(table))
        self._place = {}
        for name in ARRAYS:
            self._place[name] = len(words)
            words += _words_of(getattr(s, name))
        loops = {name: getattr(s, name, None) for name in _KERNELS}  # None: the rules never call it
        words += [address(loop, name) if loop else 0 for name, loop in loops.items()]
        self._words = np.array(words, dtype=np.int64)
        self._at = self._words.ctypes.data

    def replaced(self, *names: str) -> None:
        """These arrays of the state are others now."""
        for name in names:
            words = _words_of(getattr(self._state, name))
            self._words[self._place[name] : self._place[name] + len(words)] = words

    def advance(self, rules: Rules, until: float, moments: int) -> int:
        """`volvelle.core.forward.advance.advance` as machine code."""
        return int(machine_code(_advance_at, entry=True)(self._at, rules, until, moments))

    def believe(self) -> None:
        """`volvelle.core.forward.believe.believe` as machine code."""
        machine_code(_believe_at, entry=True)(self._at)

    def expect_ends(self) -> None:
        """`volvelle.core.forward.believe.expect_ends` as machine code."""
        machine_code(_expect_ends_at, entry=True)(self._at)

    def foresee(
        self, ahead: "Machine", rules: Rules, future: Rules, predicted: Any, told: Any
    ) -> int:
        """`volvelle.core.forward.foresee.foresee` as machine code."""
        loop = machine_code(_foresee_at, entry=True)
        return int(loop(self._at, ahead._at, rules, future, predicted, told))


def _words_of(array: Any) -> list[int]:
    words = [array.ctypes.data]
    for size, step in zip(array.shape, array.strides, strict=True):
        words += [size, step]
    return words
