"""Weights in a file beside the new program: the parts that are read do not stay in memory."""

import mmap
import re

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("transformers", reason="needs transformers (ci/requirements.txt)")

from clave import constants
from clave.llm import spool


@pytest.mark.skipif(not hasattr(mmap, "MADV_DONTNEED"), reason="pages cannot be let go here")
def test_pages_that_were_looked_at_are_let_go(tmp_path, monkeypatch):
    """Reading a few elements may map megabytes: they are released before they add up."""
    monkeypatch.setattr(spool, "_EVERY_S", 60)
    weights = spool.Spool(tmp_path, 0)
    at = weights.begin()
    weights.write(np.ones(8 << 20, np.float32))
    weights.map()
    kept = []
    with weights.released():
        tensor = weights.tensor(at, (8, 1 << 20), torch.float32)
        monkeypatch.setattr(
            constants, "after_sampling", [lambda: kept.append(resident(tensor)), *constants.after_sampling]
        )
        constants.fingerprint(tensor)
        assert resident(tensor) == 0 < kept[0]


def resident(tensor):
    """Returns the resident KiB of the mapping that contains a tensor."""
    with open("/proc/self/smaps") as f:
        parts = re.split(r"^([0-9a-f]+)-([0-9a-f]+) .*\n", f.read(), flags=re.M)[1:]
    ranges = zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    found = next(text for low, high, text in ranges if int(low, 16) <= tensor.data_ptr() < int(high, 16))
    return int(re.search(r"Rss:\s+(\d+)", found)[1])
