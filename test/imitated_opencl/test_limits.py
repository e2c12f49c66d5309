"""On imitated devices no launch exceeds a limit of the profile, no op fails, and nothing crashes."""

import collections

import pytest
from conftest import PROFILES

NAMES = sorted(p.stem for p in PROFILES.glob("*.txt"))
# An imitated device computes nothing, so that a size that an op reads from it is arbitrary.
ARBITRARY_SIZE = "exceeds the device's largest allocation"


def replay(imitate, build, profile, **env):
    """Replays all op cases. Returns the calls that exceeded limits, and the numbers of launches and cases."""
    index = build / "cases/index.tsv"
    if not index.exists():
        pytest.skip("the op cases are not built")
    command = ("test/replay", index, "--device", "opencl:0", "--fallback", "--unchecked")
    p = imitate(profile, command, **env)
    failed = [line for line in p.out.splitlines() if line.startswith("FAIL") and ARBITRARY_SIZE not in line]
    assert p.code in (0, 1) and not failed, (p.code, failed, p.err[-2000:])
    assert " passed, " in p.out and len(p.launches) > len(index.read_text().splitlines())
    return collections.Counter(tuple(b[:2]) for b in p.broken)


@pytest.mark.parametrize("precision", ("strict", "fast"))
@pytest.mark.parametrize("profile", NAMES)
def test_op_cases(imitate, build, profile, precision):
    assert not replay(imitate, build, profile, CLAVE_PRECISION=precision)


@pytest.mark.parametrize("profile", ("adreno_740", "intel_a770"))
def test_wide_indices(imitate, build, profile):
    assert not replay(imitate, build, profile, CLAVE_DEVICE_CLASS="gpu,wide")
