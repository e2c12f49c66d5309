"""Drivers that answer wrongly (test/stub_opencl/hostile.h) cause an error, a shorter list of devices or a run, but no
crash and no endless run."""

import os
import pathlib
import re

import pytest
import safetensors.torch
import small_models

LIVES = 250


@pytest.mark.parametrize("profile", ("nvidia_sm86", "adreno_740", "mali_g52"))
def test_wrong_answers(imitate, programs, tmp_path, everything, profile):
    """In make check-all, and under sanitizers, many more seeds run."""
    folder = pathlib.Path(os.environ.get("CLAVE_SAN_BUILD") or "")
    _, inputs, _ = small_models.MODELS["everything"]()
    data = tmp_path / "inputs.safetensors"
    safetensors.torch.save_file({f"in.A.{i}": t for i, t in enumerate(inputs)}, data)
    first, lives = (LIVES, 20 * LIVES) if everything else (0, LIVES)
    command = (folder / "test/fault/run_answers", programs("everything"), data, first, first + lives)
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o700)
    env = {"CLAVE_PRECISION": "fast", "CLAVE_CACHE_DIR": str(cache), "ASAN_OPTIONS": "allocator_may_return_null=1"}
    p = imitate(profile, command, timeout=3000, **env)
    assert p.code == 0, p.out[-3000:] + p.err[-3000:]
    counts = dict(re.findall(r"^(ran|no device|failed) (\d+)$", p.out, re.M))
    assert sum(map(int, counts.values())) == lives
    assert all(int(n) > lives // 20 for n in counts.values()), "the answers are too wrong or too right to test anything"
