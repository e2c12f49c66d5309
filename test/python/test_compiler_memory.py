"""A driver's compiler (PoCL's) is in memory while it compiles, not beside a model's weights."""

import os
import subprocess
import sys

import pytest

MEASURE = """
import re, sys, numpy, clave
session = clave.Session(sys.argv[1], device="opencl")
session.run(numpy.zeros((1, 1, 28, 28), numpy.float32))
head = r"^[0-9a-f]+-[0-9a-f]+ r-xp .*/lib(?:LLVM|clang-cpp).*\\n"
code = re.findall(head + r"Size: +(\\d+) kB\\n(?:\\w+: .*\\n)*?Rss: +(\\d+) kB", open("/proc/self/smaps").read(), re.M)
print(sum(int(size) for size, _ in code), sum(int(rss) for _, rss in code))
"""


@pytest.mark.by_turn(4)
@pytest.mark.skipif(sys.platform != "linux", reason="no /proc")
def test_code_is_let_go(root, tmp_path):
    """With cached kernels, the compiler is not called. If it is not in a library, there is nothing to free."""
    env = os.environ | {"CLAVE_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    tmp_path.chmod(0o700)
    command = [sys.executable, "-c", MEASURE, str(root / "examples/mnist/mnist.clv")]
    for _ in range(2):
        p = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    size, rss = map(int, p.stdout.split())
    assert rss <= size / 10, f"{rss} of {size} KB are in memory"
