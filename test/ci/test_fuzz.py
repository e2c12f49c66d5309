"""ci/fuzz fails if a target is missing, cannot start or finds something, and continues with the other targets."""

import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def fuzz(build, *targets):
    command = [str(ROOT / "ci/fuzz"), str(build), "1", *targets]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.fixture
def target(tmp_path):
    """Makes a stand-in for fuzz_npy, whose corpus is small."""
    path = tmp_path / "fuzz/fuzz_npy"
    path.parent.mkdir()

    def write(script):
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return fuzz(tmp_path, "fuzz_npy")

    return write


def test_nothing_found(target):
    p = target("echo '#1 DONE cov: 7'")
    assert p.returncode == 0 and "cov: 7" in p.stdout and "failed" not in p.stdout


@pytest.mark.parametrize("code", [1, 77, 127])
def test_a_target_that_fails(target, code):
    p = target(f"echo SUMMARY: what it found; exit {code}")
    assert p.returncode == 1 and "what it found" in p.stdout and "failed: fuzz_npy" in p.stdout


def test_a_target_that_is_not_there(tmp_path):
    p = fuzz(tmp_path, "fuzz_npy")
    assert p.returncode == 1 and "failed: fuzz_npy" in p.stdout


def test_a_target_that_cannot_start(target):
    assert target("exec /nowhere").returncode == 1
