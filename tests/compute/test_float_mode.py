"""Kernels count denormal numbers as zero, and leave the thread as they found it."""

import numpy as np
import pytest

from gossiprec.native.jit import NO_DENORMALS, ON_X86, kernel, swap_float_mode

DENORMAL = np.float32(1e-40)


@kernel
def halved(numbers, mode):
    before = swap_float_mode(mode)
    out = np.empty_like(numbers)
    for k in range(len(numbers)):
        out[k] = numbers[k] * np.float32(0.5)
    swap_float_mode(before)
    return out


@pytest.mark.skipif(not ON_X86, reason="the register is x86's")
def test_a_kernel_counts_denormal_numbers_as_zero():
    numbers = np.array([DENORMAL, 1.0], np.float32)
    assert halved(numbers, NO_DENORMALS).tolist() == [0.0, 0.5]


def test_a_kernel_leaves_the_thread_as_it_found_it():
    numbers = np.array([DENORMAL, 1.0], np.float32)
    halved(numbers, NO_DENORMALS)
    assert (numbers * np.float32(0.5))[0] > 0.0
