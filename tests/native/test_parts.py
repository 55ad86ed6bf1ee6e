"""Arrays of which the compiler knows that they do not overlap, and numbers in types."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.native.jit import as_type, constants, kernel, part

SOURCE, TARGET = 0, 1


@kernel
def add_ends(values, numbers):
    """Add the first number to the last, and the sum of the sizes to all."""
    sizes = constants(numbers)
    source, target = part(values, 1, 3, SOURCE), part(values, 4, 3, TARGET)
    target[-1] += source[0]
    for k in range(len(source)):
        target[k] += np.float32(sizes[0] + sizes[1])
    return sizes[0] * 1000 + sizes[1]


def test_parts_are_places_of_an_array_and_sizes_come_from_types():
    values = np.array([9, 1, 2, 3, 10, 20, 30, 9], np.float32)

    assert add_ends(values, (as_type(0), as_type(7))) == 7
    assert values.tolist() == [9, 1, 2, 3, 17, 27, 38, 9]
    assert add_ends(values, (as_type(6), as_type(1))) == 6001
    assert len(add_ends.signatures) == 2


@kernel
def shift(values):
    """Shift numbers one place on, within one array: each reads what the one before has written."""
    one = part(values, 0, 8, SOURCE)
    for k in range(7):
        one[k + 1] = one[k] + np.float32(1.0)


def test_numbers_of_one_part_may_depend_on_each_other():
    values = np.zeros(8, np.float32)
    shift(values)
    assert values.tolist() == [0, 1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("number", [0, 1, 2, 64, 1023])
def test_a_number_is_its_binary_digits(number):
    assert int("".join(str(len(digit)) for digit in as_type(number)), 2) == number
