"""Compilation of kernels: all compiler flags in one place, and intrinsics."""

from __future__ import annotations

import hashlib
import operator
import platform
import types as types_
from typing import Any

import numba
import numpy as np
from llvmlite import binding, ir
from numba.core import cgutils, types
from numba.core.datamodel.registry import register_default
from numba.extending import intrinsic, lower_builtin, models, register_jitable
from numba.np.arrayobj import populate_array

from gossiprec.native.kernel_cache import UncachedKernel
from gossiprec.native.numba_support import is_plain

if not is_plain():
    from gossiprec.native.numba_patches import KernelCache, link_only, link_privately

# Rows are short (d = 8 is one vector register), so the vectoriser for straight-line code matters; numba leaves it off.
numba.config.SLP_VECTORIZE = 1  # type: ignore[attr-defined]

# Reordering within a sum and fused multiply-add are allowed; NaN and infinity keep their meaning.
_FLAGS: dict[str, Any] = {
    "fastmath": {"contract", "reassoc", "arcp", "nsz"},
    "nogil": True,
    "error_model": "numpy",
    "_nrt": True,
}


def kernel(function: Any) -> Any:
    """Compile a function that is called from Python; releases the GIL; its machine code is kept on disk."""
    compiled = numba.njit(**_FLAGS)(function)
    if is_plain():
        compiled._cache = UncachedKernel(getattr(compiled, "_cache", None), function.__qualname__)
        return compiled
    compiled._cache = KernelCache(function)
    link_privately(function)
    return compiled


def _within(function: Any, **flags: Any) -> Any:
    """Compile a function for kernels only, without wrappers for Python and C, in a fifth of the time."""
    if (
        is_plain()
    ):  # with wrappers: only the methods replaced below keep Python from calling a function without one
        return numba.njit(**{**_FLAGS, **flags})(function)
    flags = {**_FLAGS, "no_cpython_wrapper": True, "no_cfunc_wrapper": True, **flags}
    compiled = numba.njit(**flags)(function)
    link_only(function)

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise TypeError(
            f"{function.__qualname__} is called by kernels only; call its py_func, or a kernel of it"
        )

    compiled._insert, compiled._compile_for_args = lambda *overload: None, refuse
    return compiled


def inline(function: Any) -> Any:
    """Compile a function called from kernels only; inlined, so that constants such as sizes reach its loops."""
    return _within(function, forceinline=True)


def borrow(function: Any) -> Any:
    """Compile a function as :func:`inline` does, but without counting the references to arrays that it reads.

    Counting calls a function that the compiler cannot look into, for every array that is read from a bundle: loops
    around such calls are neither turned into vector code nor rearranged. The caller keeps the arrays alive, so the
    function must neither make arrays, which nothing would free, nor return them, which is refused.
    """
    compiled = _within(function, forceinline=True, _nrt=False)
    add = compiled.add_overload

    def add_checked(result: Any) -> None:
        if _holds_arrays(result.signature.return_type):
            raise TypeError(f"{function.__qualname__} returns an array without counting it; use inline")
        add(result)

    compiled.add_overload = add_checked
    return compiled


def _holds_arrays(kind: Any) -> bool:
    parts = getattr(kind, "types", ())
    return isinstance(kind, types.Array) or any(map(_holds_arrays, parts))


def noinline(function: Any) -> Any:
    """Compile a function called from kernels on rare paths: kept out of the loops that matter."""
    return _within(function)


def strict_math(function: Any) -> Any:
    """Compile a function called from kernels, without reordering or fusing its operations."""
    return _within(function, fastmath=False)


def specialise(template: Any, compiler: Any = kernel, /, **functions: Any) -> Any:
    """Return a kernel made from a template, a function in which global names are bound to compiled functions.

    Its machine code is cached by all its parts, as for any kernel. With :func:`borrow`, :func:`inline` or
    :func:`noinline` as compiler it is a function for kernels.

    Raises
    ------
    TypeError
        If the template's module has no such name: the function would never be called.
    """
    unknown = sorted(functions.keys() - template.__globals__.keys())
    if unknown:
        raise TypeError(f"{template.__module__} has no {', '.join(unknown)} to replace")
    names = [f"{each.py_func.__module__}.{each.py_func.__qualname__}" for each in functions.values()]
    mark = hashlib.sha256(" ".join(names).encode()).hexdigest()[:16]
    body = types_.FunctionType(template.__code__, {**template.__globals__, **functions}, template.__name__)
    body.__module__, body.__qualname__ = template.__module__, f"{template.__qualname__}_{mark}"
    body.__doc__ = template.__doc__
    return compiler(body)


@intrinsic
def length(typing, items):
    """Return the length of a tuple as a constant, which functions that are called with it know too.

    The length of a tuple is part of its type. numba's `len` gives it as a constant for arguments only, not for a field
    of a bundle: loops over its numbers would then be compiled for any length, and sums be added in another order.
    """
    count = len(items.types)

    def generate(context, builder, signature, args):
        return ir.Constant(ir.IntType(64), count)

    return types.literal(count)(items), generate


def as_type(number: int) -> tuple[tuple[int, ...], ...]:
    """Return a number as nested tuples of zeros, its binary digits; :func:`constants` reads it from their type."""
    return tuple((0,) * int(digit) for digit in f"{number:b}")


@intrinsic
def constants(typing, numbers):
    """Return the numbers of a tuple made by :func:`as_type` as constants, which functions that get them know too."""
    found = [int("".join(str(len(digit.types)) for digit in number.types), 2) for number in numbers.types]

    def generate(context, builder, signature, args):
        return context.make_tuple(
            builder, signature.return_type, [context.get_constant(types.int64, number) for number in found]
        )

    return types.BaseTuple.from_types((types.int64,) * len(found))(numbers), generate


@intrinsic
def copy_floats(typing, target, target_at, source, source_at, count):
    """Copy `count` numbers between contiguous float32 arrays that do not overlap.

    With `count` known after inlining this is a vector load and store; a loop would stay scalar, because the compiler
    cannot know that the arrays are distinct.
    """
    signature = types.void(target, types.int64, source, types.int64, types.int64)

    def generate(context, builder, signature, args):
        into, origin = (context.make_array(signature.args[k])(context, builder, args[k]).data for k in (0, 2))
        cgutils.raw_memcpy(builder, builder.gep(into, [args[1]]), builder.gep(origin, [args[3]]), args[4], 4)
        return ir.Constant(ir.IntType(8).as_pointer(), None)

    return signature, generate


class PartArray(types.Array):
    """The type of an array of float32 that overlaps no array of another kind (:func:`part`).

    Without this the compiler must assume that each number stored changes those read next. Nor can it know that an index
    does not count from the end, so an index that varies must not be negative. Loops are then turned into vector code.
    """

    def __init__(self, kind: int) -> None:
        self.kind = kind
        super().__init__(types.float32, 1, "C", name=f"part(float32, {kind})")

    @property
    def key(self) -> Any:
        """The properties by which types differ."""
        return (*super().key, self.kind)


register_default(PartArray)(models.ArrayModel)


@intrinsic(prefer_literal=True)
def part(typing, values, at, count, kind):
    """Return `count` numbers of a contiguous array, from `at`, as a :class:`PartArray` of a constant kind.

    A slice has a length that the compiler does not know; here it is `count`, which may be a constant. Nothing is
    checked, and the array is not counted (:func:`borrow`).
    """
    result = PartArray(kind.literal_value)

    def generate(context, builder, signature, args):
        given = context.make_array(signature.args[0])(context, builder, args[0])
        found, size = context.make_array(result)(context, builder), given.itemsize
        count = [args[2]]
        populate_array(
            found, builder.gep(given.data, [args[1]]), cgutils.pack_array(builder, count),
            cgutils.pack_array(builder, [size]), size, meminfo=None, parent=None,
        )  # fmt: skip
        return found._getvalue()

    return result(values, types.int64, types.int64, kind), generate


@intrinsic(prefer_literal=True)
def stored_part(typing, values, at, count, kind, wide, wide_at):
    """Return `count` stored numbers as :func:`part` does; float16 bits are first copied to `wide`, from `wide_at`."""
    result = PartArray(kind.literal_value)

    def generate(context, builder, signature, args):
        given = context.make_array(signature.args[0])(context, builder, args[0])
        data = builder.gep(given.data, [args[1]])
        if signature.args[0].dtype != types.float32:
            room = context.make_array(signature.args[4])(context, builder, args[4])
            halves, data = data, builder.gep(room.data, [args[5]])
            with cgutils.for_range(builder, args[2]) as loop:
                bits = builder.load(builder.gep(halves, [loop.index]))
                number = builder.fpext(builder.bitcast(bits, ir.HalfType()), ir.FloatType())
                builder.store(number, builder.gep(data, [loop.index]))
        found = context.make_array(result)(context, builder)
        size = ir.Constant(ir.IntType(64), 4)
        populate_array(
            found, data, cgutils.pack_array(builder, [args[2]]), cgutils.pack_array(builder, [size]), size,
            meminfo=None, parent=None,
        )  # fmt: skip
        return found._getvalue()

    return result(values, types.int64, types.int64, kind, wide, types.int64), generate


def _place(context: Any, builder: Any, kind: PartArray, array: Any, index_type: Any, index: Any) -> Any:
    array = context.make_array(kind)(context, builder, array)
    index = context.cast(builder, index, index_type, types.intp)
    if isinstance(index, ir.Constant) and index.constant < 0:
        index = builder.add(index, builder.extract_value(array.shape, 0))
    return builder.gep(array.data, [index])


def _mark(builder: Any, access: Any, kind: PartArray) -> None:
    """Mark an access to memory, so that the compiler knows that no access of another kind meets it."""
    module = builder.module
    root = module.add_metadata(["parts of a model"])
    node = module.add_metadata([f"part {kind.kind}", root, ir.IntType(64)(0)])
    access.set_metadata("tbaa", module.add_metadata([node, node, ir.IntType(64)(0)]))


@lower_builtin(operator.getitem, PartArray, types.Integer)
def _read_part(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    kind, index_type = signature.args
    value = builder.load(_place(context, builder, kind, args[0], index_type, args[1]))
    _mark(builder, value, kind)
    return value


@lower_builtin(operator.setitem, PartArray, types.Integer, types.Number)
def _write_part(context: Any, builder: Any, signature: Any, args: Any) -> None:
    kind, index_type, given = signature.args
    place = _place(context, builder, kind, args[0], index_type, args[1])
    _mark(builder, builder.store(context.cast(builder, args[2], given, types.float32), place), kind)


ON_X86 = platform.machine().lower() in ("x86_64", "amd64")
NO_DENORMALS = np.uint32(0x9FC0)
"""The x86 control register MXCSR at its default, but numbers too small for full precision count as zero."""


@intrinsic
def swap_float_mode(typing, mode):
    """Set this thread's floating-point control register and return its former value; no effect on other processors.

    Late in a run squares of vanishing gradients fall below 1e-38, on which the processor is slow (75 us per epoch
    against 54). Kernels set the register when they start and restore it when they end.
    """

    def generate(context, builder, signature, args):
        if not ON_X86:
            return args[0]
        place = cgutils.alloca_once(builder, ir.IntType(32))
        byte = builder.bitcast(place, ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [ir.IntType(8).as_pointer()])
        for name in ("llvm.x86.sse.stmxcsr", "llvm.x86.sse.ldmxcsr"):
            function = cgutils.get_or_insert_function(builder.module, kind, name)
            if name.endswith("ldmxcsr"):
                before = builder.load(place)
                builder.store(args[0], place)
            builder.call(function, [byte])
        return before

    return types.uint32(types.uint32), generate


def jitable(function: Any) -> Any:
    """Return the function as it is; kernels that call it compile it for themselves."""
    if not is_plain():
        link_only(function)
    return register_jitable(function)


@intrinsic
def load_float32(typing, value):
    """Return a stored number, float32 or the bits of a float16, as float32."""

    def generate(context, builder, signature, args):
        if signature.args[0] == types.float32:
            return args[0]
        return builder.fpext(builder.bitcast(args[0], ir.HalfType()), ir.FloatType())

    return types.float32(value), generate


@intrinsic
def store_rounded(typing, stored, value, noise):
    """Return float32 `value` as a number of the array `stored`; see :func:`gossiprec.numerics.noise.to_float16`."""
    kind = stored.dtype

    def generate(context, builder, signature, args):
        if kind == types.float32:
            return args[1]
        word = ir.IntType(32)
        bits = builder.add(builder.bitcast(args[1], word), args[2])
        bits = builder.and_(bits, ir.Constant(word, 0xFFFFE000))
        half = builder.fptrunc(builder.bitcast(bits, ir.FloatType()), ir.HalfType())
        return builder.bitcast(half, ir.IntType(16))

    return kind(stored, types.float32, types.uint32), generate


@intrinsic
def is_float32(typing, rows):
    """Return whether an array holds float32; the compiler knows the answer and drops the other branch."""

    def generate(context, builder, signature, args):
        return ir.Constant(ir.IntType(1), signature.args[0].dtype == types.float32)

    return types.boolean(rows), generate


@intrinsic
def bits_of(typing, number):
    """Return the bits of a float32 as an int32."""

    def generate(context, builder, signature, args):
        return builder.bitcast(args[0], ir.IntType(32))

    return types.int32(types.float32), generate


@intrinsic
def float_of(typing, bits):
    """Return the float32 with these bits."""

    def generate(context, builder, signature, args):
        return builder.bitcast(args[0], ir.FloatType())

    return types.float32(types.int32), generate


COMPRESSES = binding.llvm_version_info >= (19,)
"""Whether LLVM moves the wanted numbers of a vector to its front in one operation."""


@intrinsic
def keep_16(typing, scores, at, bound, given, kept, found):
    """Write those of `given[at : at + 16]` to ``kept[found:]`` of which the scores reach a bound; return the new end.

    All arrays are contiguous int32. The other places of ``kept[found : found + 16]`` get any numbers. `kept` may be
    `given` if `found` is not above `at`.
    """

    def generate(context, builder, signature, args):
        word, row = ir.IntType(32), ir.VectorType(ir.IntType(32), 16)
        flags, none = ir.VectorType(ir.IntType(1), 16), ir.Constant(row, ir.Undefined)

        def place(argument, index):
            data = context.make_array(signature.args[argument])(context, builder, args[argument]).data
            return builder.gep(data, [index])

        def read(argument):
            return builder.load(builder.bitcast(place(argument, args[1]), row.as_pointer()), align=4)

        bounds = builder.shuffle_vector(
            builder.insert_element(none, args[2], word(0)), none, ir.Constant(row, [0] * 16)
        )
        reached, numbers, target = builder.icmp_signed(">=", read(0), bounds), read(3), place(4, args[5])
        if COMPRESSES:
            name, kind = "llvm.experimental.vector.compress", ir.FunctionType(row, [row, flags, row])
            compress = cgutils.get_or_insert_function(builder.module, kind, f"{name}.v16i32")
            first = builder.call(compress, [numbers, reached, none])
            builder.store(first, builder.bitcast(target, row.as_pointer()), align=4)
        else:
            kind = ir.FunctionType(ir.VoidType(), [row, target.type, flags])
            store = cgutils.get_or_insert_function(builder.module, kind, "llvm.masked.compressstore.v16i32")
            builder.call(store, [numbers, target, reached])
        bits = builder.bitcast(reached, ir.IntType(16))
        return builder.add(args[5], builder.zext(builder.ctpop(bits), ir.IntType(64)))

    return types.int64(scores, types.int64, types.int32, given, kept, types.int64), generate
