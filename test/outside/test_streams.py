"""The tool with closed or full streams: one line or none, the documented exit status, never a signal."""

import subprocess

import pytest

MODEL = "examples/mnist/mnist.clv"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_is_closed(build, root, outsider, closed):
    command = f'"{build}/clave" inspect {MODEL} {closed}'
    p = subprocess.run(["sh", "-c", command], cwd=root, env=outsider, capture_output=True, text=True)
    assert p.returncode in (0, 1), p.stderr
    assert p.returncode == 0 or ">&-" in closed
    assert len(p.stderr.splitlines()) <= 1


def test_a_stream_is_full(build, root, outsider):
    command = f'"{build}/clave" inspect {MODEL} >/dev/full'
    p = subprocess.run(["sh", "-c", command], cwd=root, env=outsider, capture_output=True, text=True)
    assert p.returncode == 1 and p.stderr.startswith("clave: ") and len(p.stderr.splitlines()) == 1, p.stderr


def test_the_reader_goes_away(build, root, outsider):
    command = f'"{build}/clave" inspect {MODEL} --json | head -c 1'
    p = subprocess.run(["sh", "-c", command], cwd=root, env=outsider, capture_output=True, text=True)
    assert p.stdout == "{" and p.returncode == 0
