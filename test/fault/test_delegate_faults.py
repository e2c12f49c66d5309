"""Allocations that fail while a plugin is used."""

from test_faults import binary, run_faults


def test_delegate(root, build, everything):
    """Every allocation during the use of a plugin fails once."""
    mnist, step = root / "examples/mnist/mnist.clv", 1 if everything else 13
    run_faults(binary(build, "run_delegate_faults"), "alloc", mnist, 0, step, least=20)
