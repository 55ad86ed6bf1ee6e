"""Torch's optimizers without its compiler: the same steps, and no import of it."""

import subprocess
import sys

import pytest
import torch

from gossiprec.numerics import torch_setup
from tests.slow import slow_except_first

STEP = """
import sys, torch
from gossiprec.numerics import torch_setup
x = torch.nn.Parameter(torch.ones(3))
optimizer = getattr(torch_setup, f"make_{sys.argv[1].lower()}")([x], lr=0.1, foreach=False)
optimizer.zero_grad()
x.square().sum().backward()
optimizer.step()
print([m for m in ("torch._dynamo", "sympy") if m in sys.modules])
"""


def stepped(optimizer, **options):
    """Return parameters after some steps, half of which see a gradient of only one of the two."""
    draw = torch.Generator().manual_seed(1)
    both = [torch.nn.Parameter(torch.randn(5, generator=draw)) for _ in range(2)]
    taking = optimizer(both, lr=0.05, **options)
    for step in range(6):
        taking.zero_grad()
        sum((x.sin() * x).sum() for x in both[: 1 + step % 2]).backward()
        taking.step()
    return torch.cat(both)


@pytest.mark.parametrize("options", [{"foreach": False}, {"fused": True}], ids=str)
@pytest.mark.parametrize("name", ["Adam", "SGD"])
def test_steps_are_those_of_torch_to_the_last_bit(name, options):
    ours = stepped(getattr(torch_setup, f"make_{name.lower()}"), **options)
    theirs = stepped(getattr(torch.optim, name), **options)

    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("name", slow_except_first(["Adam", "SGD"]))
@pytest.mark.full
def test_a_step_does_without_the_compiler_of_torch(name):
    ran = subprocess.run([sys.executable, "-c", STEP, name], capture_output=True, text=True, check=True)

    assert ran.stdout == "[]\n"
