"""A float32 and its bits, in compiled code."""

from __future__ import annotations

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic


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
