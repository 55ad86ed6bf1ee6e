"""Intrinsics that compute one tile of a product of matrices in vector registers."""

from __future__ import annotations

from typing import Any, NamedTuple

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from gossiprec.base.portable import target_features

_WIDE = "avx512f" in target_features()
LANES = 32 if _WIDE else 16
"""Columns of a tile of :func:`add_product`; lengths are multiples of it."""
_DOT_LANES = 16 if _WIDE else 8
WIDE = 4 * LANES
"""Columns of a tile of :func:`add_squares`, which has one row and would otherwise wait for its sums."""
GATHERED = 64 if _WIDE else 32
"""Columns of a tile of :func:`gather_sum`."""
ROWS = 4
"""Rows of a tile of products."""
COLUMNS = 4 if _WIDE else 2

_FLOAT, _INT = ir.FloatType(), ir.IntType(64)


class Matrix(NamedTuple):
    """A matrix in a flat array: its offset, and the distances from a row and from a column to the next.

    The columns of a product and of its right factor must follow each other.
    """

    values: Any
    at: int
    row: int
    column: int


def _vector(lanes: int) -> Any:
    return ir.VectorType(_FLOAT, lanes)


class _Builder:
    """The builder of a tile's machine code: addresses, loads, and one loop that carries sums."""

    def __init__(self, context: Any, builder: Any, signature: Any, args: Any) -> None:
        self._context, self._builder, self._signature, self._args = context, builder, signature, args

    def array(self, k: int) -> Any:
        """Return the address of an array argument's data."""
        kind = self._signature.args[k]
        return self._context.make_array(kind)(self._context, self._builder, self._args[k]).data

    def matrix(self, k: int) -> tuple[Any, ...]:
        """Return the address of the data of a matrix argument, and its other fields."""
        kind, builder = self._signature.args[k], self._builder
        values, *numbers = cgutils.unpack_tuple(builder, self._args[k])
        data = self._context.make_array(kind[0])(self._context, builder, values).data
        casts = zip(numbers, kind.types[1:], strict=True)
        return data, *(self._context.cast(builder, number, own, types.int64) for number, own in casts)

    def at(self, array: Any, place: Any, stride: Any = None, count: Any = 0) -> Any:
        """Return the address of ``place + stride * count``."""
        builder = self._builder
        if stride is not None:
            count = ir.Constant(_INT, count) if isinstance(count, int) else count
            place = builder.add(place, builder.mul(stride, count))
        return builder.gep(array, [place])

    def load(self, address: Any, lanes: int) -> Any:
        """Return `lanes` numbers from an address."""
        kind = _vector(lanes).as_pointer()
        return self._builder.load(self._builder.bitcast(address, kind), align=4)

    def store(self, value: Any, address: Any) -> None:
        """Put numbers back."""
        self._builder.store(value, self._builder.bitcast(address, value.type.as_pointer()), align=4)

    def everywhere(self, number: Any, lanes: int) -> Any:
        """Return a number in all lanes."""
        nothing = ir.Constant(_vector(lanes), ir.Undefined)
        first = self._builder.insert_element(nothing, number, ir.Constant(ir.IntType(32), 0))
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
        return self._builder.shuffle_vector(first, nothing, zeros)

    def subtract(self, one: Any, other: Any) -> Any:
        """Return ``one - other``."""
        return self._builder.fsub(one, other)

    def multiply_add(self, one: Any, other: Any, to: Any) -> Any:
        """Return ``one * other + to``."""
        kind = one.type
        function = ir.FunctionType(kind, [kind] * 3)
        found = cgutils.get_or_insert_function(
            self._builder.module, function, f"llvm.fmuladd.v{kind.count}f32"
        )
        return self._builder.call(found, [one, other, to])

    def total(self, begin: Any, vector: Any) -> Any:
        """Return the sum of a number and all lanes."""
        name = f"llvm.vector.reduce.fadd.v{vector.type.count}f32"
        function = ir.FunctionType(_FLOAT, [_FLOAT, vector.type])
        found = cgutils.get_or_insert_function(self._builder.module, function, name)
        return self._builder.call(found, [begin, vector], fastmath=("reassoc",))

    def summed(self, count: Any, step: int, begin: list[Any], add: Any) -> list[Any]:
        """Return the result of ``sums = add(k, sums)``, starting from `begin`, for k = 0, step, ... below `count`."""
        builder = self._builder
        before, loop, done = (
            builder.block, builder.append_basic_block("loop"), builder.append_basic_block("done")
        )  # fmt: skip
        builder.cbranch(builder.icmp_signed(">", count, ir.Constant(_INT, 0)), loop, done)
        builder.position_at_end(loop)
        k, *sums = (builder.phi(value.type) for value in (count, *begin))
        added = add(k, sums)
        after = builder.add(k, ir.Constant(_INT, step))
        for phi, start, end in zip((k, *sums), (ir.Constant(_INT, 0), *begin), (after, *added), strict=True):
            phi.add_incoming(start, before)
            phi.add_incoming(end, loop)
        builder.cbranch(builder.icmp_signed("<", after, count), loop, done)
        builder.position_at_end(done)
        found = [builder.phi(value.type) for value in begin]
        for phi, start, end in zip(found, begin, added, strict=True):
            phi.add_incoming(start, before)
            phi.add_incoming(end, loop)
        return found


def _product(write: _Builder, factor: Any, line: Any, to: Any) -> Any:
    return write.multiply_add(factor, line, to)


def _square(write: _Builder, number: Any, line: Any, to: Any) -> Any:
    apart = write.subtract(line, number)
    return write.multiply_add(apart, apart, to)


def _tile(rows: int, lanes: int, term: Any) -> Any:
    """Return an intrinsic that adds ``sum_i term(a[o, i], b[i, :lanes])`` to ``c[o, :lanes]`` for `rows` rows o."""

    @intrinsic
    def tile(typing, c, a, b, inner):
        signature = types.void(c, a, b, types.int64)

        def generate(context, builder, signature, args):
            write = _Builder(context, builder, signature, args)
            (into, c_at, c_row, _), (left, a_at, a_row, a_column), (right, b_at, b_row, _) = (
                write.matrix(k) for k in range(3)
            )
            inner = args[3]
            places = [write.at(into, c_at, c_row, o) for o in range(rows)]

            def add(i: Any, sums: list[Any]) -> list[Any]:
                line = write.load(write.at(right, b_at, b_row, i), lanes)
                column = builder.add(a_at, builder.mul(a_column, i))
                factors = [builder.load(write.at(left, column, a_row, o)) for o in range(rows)]
                return [
                    term(write, write.everywhere(factor, lanes), line, each)
                    for factor, each in zip(factors, sums, strict=True)
                ]

            begin = [write.load(place, lanes) for place in places]
            for value, place in zip(write.summed(inner, 1, begin, add), places, strict=True):
                write.store(value, place)
            return context.get_dummy_value()

        return signature, generate

    return tile


def _inner_tile(rows: int, columns: int) -> Any:
    """Return an intrinsic that adds ``sum_k a[o, k] b[i, k]`` to ``c[o, i]`` for some rows o and i."""

    @intrinsic
    def tile(typing, c, a, b, length):
        signature = types.void(c, a, b, types.int64)

        def generate(context, builder, signature, args):
            write = _Builder(context, builder, signature, args)
            (into, c_at, c_row, _), (left, a_at, a_row, _), (right, b_at, b_row, _) = (
                write.matrix(k) for k in range(3)
            )
            length = args[3]

            def add(k: Any, sums: list[Any]) -> list[Any]:
                ones, others = (
                    [write.load(write.at(array, builder.add(at, k), row, line), _DOT_LANES) for line in range(many)]
                    for array, at, row, many in ((left, a_at, a_row, rows), (right, b_at, b_row, columns))
                )  # fmt: skip
                pairs = [(one, other) for one in ones for other in others]
                return [write.multiply_add(*pair, each) for pair, each in zip(pairs, sums, strict=True)]

            zeros = [ir.Constant(_vector(_DOT_LANES), [0.0] * _DOT_LANES)] * (rows * columns)
            for k, vector in enumerate(write.summed(length, _DOT_LANES, zeros, add)):
                place = write.at(into, builder.add(c_at, ir.Constant(_INT, k % columns)), c_row, k // columns)
                builder.store(write.total(builder.load(place), vector), place)
            return context.get_dummy_value()

        return signature, generate

    return tile


@intrinsic
def count_not_below(typing, counts, counts_at, a, length, b, b_at):
    """Set ``counts[counts_at + k]``, k below LANES, to how many numbers of `a` are not below ``b[b_at + k]``.

    All are arrays of float32 without gaps; of `a` only the first `length` count.
    """
    number = types.int64
    signature = types.void(counts, number, a, number, b, number)

    def generate(context, builder, signature, args):
        write = _Builder(context, builder, signature, args)
        into, left, right = (write.array(k) for k in (0, 2, 4))
        line, whole = write.load(write.at(right, args[5]), LANES), ir.VectorType(ir.IntType(32), LANES)

        def add(k: Any, sums: list[Any]) -> list[Any]:
            one = write.everywhere(builder.load(write.at(left, k)), LANES)
            return [builder.add(sums[0], builder.zext(builder.fcmp_unordered(">=", one, line), whole))]

        (found,) = write.summed(args[3], 1, [ir.Constant(whole, [0] * LANES)], add)
        write.store(builder.uitofp(found, _vector(LANES)), write.at(into, args[1]))
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def gather_sum(typing, out, out_at, factors, places, begin, end, rows, dim, column):
    """Set GATHERED numbers of `out`, from `out_at`, to ``sum_e factors[e] * rows[places[e] * dim + column ...]``.

    The sum over e = begin .. end - 1 is in this order, and starts with zero; `out` and `rows` are flat.
    """
    number = types.int64
    signature = types.void(out, number, factors, places, number, number, rows, number, number)

    def generate(context, builder, signature, args):
        write = _Builder(context, builder, signature, args)
        into, weights, indices, table = (write.array(k) for k in (0, 2, 3, 6))
        begin, dim, column = args[4], args[7], args[8]

        def add(k: Any, sums: list[Any]) -> list[Any]:
            edge = builder.add(begin, k)
            place = builder.sext(builder.load(write.at(indices, edge)), _INT)
            line = write.load(write.at(table, column, dim, place), GATHERED)
            factor = builder.load(write.at(weights, edge))
            return [write.multiply_add(write.everywhere(factor, GATHERED), line, sums[0])]

        zeros = [ir.Constant(_vector(GATHERED), [0.0] * GATHERED)]
        (found,) = write.summed(builder.sub(args[5], begin), 1, zeros, add)
        write.store(found, write.at(into, args[1]))
        return context.get_dummy_value()

    return signature, generate


rows_of_product, row_of_product = _tile(ROWS, LANES, _product), _tile(1, LANES, _product)
squares = _tile(1, WIDE, _square)
square_of_inner, one_inner = _inner_tile(ROWS, COLUMNS), _inner_tile(1, 1)
