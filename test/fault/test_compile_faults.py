"""Allocations that fail while a program is compiled."""

import shutil
import subprocess

import pytest
from test_faults import binary, run_faults

pytestmark = pytest.mark.by_turn(9)


@pytest.mark.parametrize("packed", [False, True])
def test_allocations_of_the_compiler(root, build, tmp_path, everything, packed):
    """After an error no output remains."""
    made, compiler = tmp_path / "made", tmp_path / "cc"
    made.mkdir()
    compiler.write_text(
        '#!/bin/sh\ncase "$1" in -print-*) exec echo /lib.a ;; esac\nwhile [ "$1" != -o ]; do shift; done; : > "$2"\n'
    )
    compiler.chmod(0o755)
    mnist, step = root / "examples/mnist/mnist.clv", 1 if everything else 17
    if packed:
        words = [build / "clave", "convert", mnist, tmp_path / "packed.clv", "--pack", "cpu"]
        subprocess.run(words, check=True)
        mnist = tmp_path / "packed.clv"
    others = (root / "examples/tinylm/tinylm.clv", tmp_path / "libclave.a")
    for archive in ("libclave.a", "libclave_main.a"):
        (tmp_path / archive).write_text("")
    run_faults(binary(build, "run_compile_faults"), mnist, "batch", made, compiler, step, *others, least=10)
    assert not list(made.iterdir())


def test_allocations_of_the_compilers_options(root, build, tmp_path, everything):
    """Libraries, objects for firmware, the user's own kernels, stored results, the SBOM: after an error each is
    complete or absent."""
    made, compiler, kernels = tmp_path / "made", tmp_path / "cc", tmp_path / "kernels"
    made.mkdir()
    kernels.mkdir()
    for name in ("conv/conv.c", "pool.c"):
        shutil.copy(root / "backend/cpu/kernels" / name, kernels)
    compiler.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && exec echo cc\nwhile [ "$1" != -o ]; do shift; done; : > "$2"\n'
    )
    compiler.chmod(0o755)
    mnist, step = root / "examples/mnist/mnist.clv", 1 if everything else 43
    run_faults(binary(build, "run_compile_faults"), mnist, "batch", made, compiler, step, kernels, least=10)
    assert not list(made.iterdir())
