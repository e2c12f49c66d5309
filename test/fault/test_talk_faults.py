"""Allocations and OpenCL calls that fail in conversations with their own state, and in those that share pages."""

import pathlib
import sys

import pytest
from test_faults import binary, run_faults

pytestmark = pytest.mark.by_turn(9)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Returns a cache, so that kernels are built once for all tests of this file."""
    return {"CLAVE_CACHE_DIR": str(tmp_path_factory.mktemp("cache"))}


@pytest.fixture(scope="module")
def talks(tmp_path_factory):
    """Makes language models whose conversations have their own state, or share pages; each has a tokenizer."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "llm"))
    import _models

    folder = tmp_path_factory.mktemp("talk")
    ranks = _models.byte_ranks(folder / "bytes.tiktoken")
    own, paged = _models.export(folder / "m.clv", context=256), _models.export_attention(folder / "p.clv", 256)
    return {"own": (own, ranks), "paged": (paged, ranks)}


@pytest.mark.parametrize("kind", ["own", "paged"])
def test_conversations(talks, kind, build, tmp_path):
    """Every allocation of a conversation, its fork and its file fails once."""
    run_faults(binary(build, "run_talk_faults"), "alloc", *talks[kind], "cpu", tmp_path / "talk", least=200)


def test_conversations_on_opencl(talks, build, tmp_path, cache, everything):
    run, step = binary(build, "run_talk_faults"), 1 if everything else 61
    run_faults(run, "alloc", *talks["paged"], "opencl", tmp_path / "talk", 0, step, env=cache, least=5)


@pytest.mark.parametrize("kind", ["own", "paged"])
def test_opencl_calls_of_conversations(talks, kind, build, stub, tmp_path, cache, everything):
    run, step = binary(build, "run_talk_faults", sanitized=False), 1 if everything else 71
    run_faults(run, "calls", *talks[kind], "opencl", tmp_path / "talk", 0, step, env=stub | cache, least=10)
