"""The state's tables and arrays as types of Numba; imported only where something is compiled.

To machine code the state is a block of words (`volvelle.core.machine`). Python owns the arrays and writes the
words; nothing is counted or freed in between, so a number is one load away.
"""

import operator
from typing import Any

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

from volvelle.core.machine_code.kinds import Signature
from volvelle.core.machine_code.words import KERNELS, PLACES, TABLE_WORDS, WORD
from volvelle.core.state import (
    ARRAYS,
    TABLES,
    Cube,
    Floats,
    Ints,
    Matrix,
    Rules,
    State,
    StateTable,
    array_of,
)

_OPTIONS = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}

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
    """Where it begins; how many entries it has and how many bytes they are apart, by dimension.

    Addresses of numbers are pointers all along: the optimiser follows these through loops, not whole numbers.
    """

    def __init__(self, manager: Any, block: _Block) -> None:
        members = [("at", types.voidptr)]
        for dimension in range(block.dimensions):
            members += [(f"size{dimension}", types.intp), (f"step{dimension}", types.intp)]
        super().__init__(manager, block, members)


@register_default(_Words)
class _WordsModel(models.StructModel):
    def __init__(self, manager: Any, words: _Words) -> None:
        super().__init__(manager, words, [("at", types.uintp)])


class _RulesAt(types.Type):
    """The rules whose fields are words at an address: numbers as they are, truth as 0 or 1."""

    def __init__(self) -> None:
        super().__init__("RulesAt")


@register_default(_RulesAt)
class _RulesModel(models.StructModel):
    def __init__(self, manager: Any, rules: _RulesAt) -> None:
        super().__init__(manager, rules, [("at", types.uintp)])


_RULES = _RulesAt()
_FIELDS = {
    name: {bool: types.boolean, int: types.int64, float: types.float64}[kind]
    for name, kind in Rules.__annotations__.items()
}


@infer_getattr
class _RulesAttributes(AttributeTemplate):
    key = _RulesAt

    def generic_resolve(self, rules: _RulesAt, attribute: str) -> Any:
        """The type of a field."""
        return _FIELDS.get(attribute)


@lower_getattr_generic(_RulesAt)
def _field(context: Any, builder: Any, rules: _RulesAt, value: Any, attribute: str) -> Any:
    at = cgutils.create_struct_proxy(rules)(context, builder, value=value).at
    kind = _FIELDS[attribute]
    word = types.float64 if kind == types.float64 else types.int64
    loaded = _word(context, builder, at, list(_FIELDS).index(attribute), word)
    return context.cast(builder, loaded, word, kind)


_FLOATS, _INTS = _Block(types.float64), _Block(types.int64)
_INT_COLUMNS = _Block(types.int64, 2)
_TYPES: dict[Any, Any] = {
    **{kind: _Words(kind) for kind in TABLES.values()},
    State: _Words(None),
    Rules: _RULES,
    Floats: _FLOATS,
    Ints: _INTS,
    Matrix: _Block(types.float64, 2),
    Cube: _Block(types.float64, 3),
    float: types.float64,
    int: types.int64,
    bool: types.boolean,
    None: types.void,
}
"""Types of Numba by annotation."""


def numba_signature(signature: Signature) -> Any:
    """The same with types of Numba; None where an annotation has none, or where there is no argument."""
    if len(signature) < 2 or any(each not in _TYPES for each in signature):
        return None
    returned, *taken = (_TYPES[each] for each in signature)
    return returned(*taken)


def _word(context: Any, builder: Any, at: Any, place: int, kind: Any = types.intp) -> Any:
    """The word at a place; words do not change while machine code runs."""
    word = context.get_value_type(kind)
    pointer = builder.inttoptr(builder.add(at, at.type(place * WORD)), word.as_pointer())
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
                return _TYPES[TABLES[attribute]]
            return _TYPES[ARRAYS[attribute][0]] if attribute in ARRAYS else None
        if attribute == "floats":
            return _TYPES[Matrix]
        if attribute == "ints":
            return _INT_COLUMNS
        if attribute in words.table.float_columns:
            return _FLOATS
        return _INTS if attribute in words.table.int_columns else None


@lower_getattr_generic(_Words)
def _attribute(context: Any, builder: Any, words: _Words, value: Any, attribute: str) -> Any:
    at = cgutils.create_struct_proxy(words)(context, builder, value=value).at
    if words.table is None:
        place = PLACES[attribute]
        if attribute in TABLES:
            table = cgutils.create_struct_proxy(_TYPES[TABLES[attribute]])(context, builder)
            table.at = builder.add(at, at.type(place * WORD))
            return table._getvalue()
        kind = _TYPES[ARRAYS[attribute][0]]
        count = 1 + 2 * kind.dimensions
        begin = _word(context, builder, at, place, types.voidptr)
        shape = (_word(context, builder, at, place + i) for i in range(1, count))
        return _block(context, builder, kind, begin, *shape)
    floats, step, ints, ints_step, size = (
        _word(context, builder, at, i, types.voidptr if i in (0, 2) else types.intp)
        for i in range(TABLE_WORDS)
    )
    number = at.type(WORD)
    if attribute == "floats":
        many = builder.sdiv(step, number)
        return _block(context, builder, _TYPES[Matrix], floats, many, number, size, step)
    if attribute == "ints":
        many = builder.sdiv(ints_step, number)
        return _block(context, builder, _INT_COLUMNS, ints, many, number, size, ints_step)
    names, begin, kind = words.table.float_columns, floats, _FLOATS
    if attribute in words.table.int_columns:
        names, begin, step, kind = words.table.int_columns, ints, ints_step, _INTS
    begin = builder.gep(begin, [at.type(names.index(attribute) * WORD)])
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
    return parts, builder.gep(parts.at, [builder.mul(index, parts.step0)])


@lower_builtin(operator.getitem, _Block, types.intp)
def _getitem(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    block = sig.args[0]
    parts, at = _entry(context, builder, block, *args)
    if block.dimensions == 1:
        return builder.load(builder.bitcast(at, context.get_value_type(block.kind).as_pointer()))
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
    pointer = builder.bitcast(at, context.get_value_type(block.kind).as_pointer())
    builder.store(context.cast(builder, number, sig.args[2], block.kind), pointer)
    return context.get_dummy_value()


@lower_builtin(len, _Block)
def _len(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return cgutils.create_struct_proxy(sig.args[0])(context, builder, value=args[0]).size0


# ---------------------------------------------------------------------- kernels


def _method(name: str) -> None:
    """Let machine code call ``s.key(...)`` and the like, by the address among the words."""
    sig = numba_signature(KERNELS[name])

    def generate(context: Any, builder: Any, called: Any, args: Any) -> Any:
        words, given = args[0], cgutils.unpack_tuple(builder, args[1])
        at = cgutils.create_struct_proxy(called.args[0])(context, builder, value=words).at
        convention = context.call_conv
        pointer = builder.inttoptr(
            _word(context, builder, at, PLACES[name]),
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

    @overload_method(_Words, name, jit_options=_OPTIONS)
    def method(words, *given):  # type: ignore[no-untyped-def] # the arguments of the lambda
        return lambda words, *given: call(words, given)


for _name in KERNELS:
    _method(_name)


@intrinsic
def _pointer(typing: Any, block: Any) -> Any:
    """Where a block of floats begins."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        at = cgutils.create_struct_proxy(sig.args[0])(context, builder, value=args[0]).at
        return builder.bitcast(at, context.get_value_type(sig.return_type))

    return types.CPointer(types.float64)(block), generate


@overload(array_of, jit_options=_OPTIONS)
def _array_of(numbers):  # type: ignore[no-untyped-def] # the argument of the lambda
    if not isinstance(numbers, _Block):
        return lambda numbers: numbers
    if numbers.dimensions == 1:
        return lambda numbers: carray(_pointer(numbers), len(numbers))
    return lambda numbers: carray(
        _pointer(numbers), (len(numbers), len(numbers[0]), len(numbers[0][0]))
    )
