"""Small models of real families, in Hugging Face's format: exported, run on both backends, compared with torch.

`test/families/run.py` runs the others of test/families. Requirements beyond `make check-more`: `ci/venv families`, then
`.venv-families/bin/python -m pytest test/python/test_families.py`.
"""

import importlib.util
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "families"))
import check
import run

# family: the patterns that must be found in it, with their counts
FAMILIES = {
    "bert": {},
    "deberta_v2": {},
    "t5_encoder": {"rms_norm": 5},
    "gpt2": {},
    "gptj": {"rope": 4},
    "bloom": {"attention": 2},
    "llama": {"rms_norm": 5, "rope": 4, "attention_mask": 2},
    "llama_eager": {"rms_norm": 5, "rope": 4, "attention": 2},
    "llama_bf16": {"rms_norm": 5, "norm_in_16_bits": 5, "rope": 4},
    "gemma3": {"rms_norm": 13, "rope": 4},
    "mixtral": {"rms_norm": 5, "rope": 4, "grouped_attention": 2, "attention_mask": 2},
    "mamba2": {"rms_norm": 5},
    "whisper": {},
    "vit": {},
    "swin": {},
    "convnext": {},
    "segformer": {},
    "detr": {},
    "clip": {},
    "wav2vec2": {},
    "unet_condition": {},
    "flux": {"rope": 4},
}


WITHOUT = importlib.util.find_spec("diffusers") is None


@pytest.mark.skipif(WITHOUT, reason="needs ci/requirements-families.txt: ci/venv families")
@pytest.mark.parametrize("name", FAMILIES)
def test_family(name):
    result = check.family(name, ["cpu", "opencl"])
    assert result["status"] == "right", result
    assert {k: result["passes"].get(k) for k in FAMILIES[name]} == FAMILIES[name]


@pytest.mark.parametrize(
    ("status", "listed", "said"),
    [
        ("right", {}, ""),
        ("unsupported", {}, "new unsupported"),
        ("unsupported", {("bert", "eager"): "unsupported"}, ""),
        ("unsupported", {("bert", "fixed"): "unsupported"}, "new unsupported"),
        ("wrong", {("bert", "eager"): "unsupported"}, "listed as unsupported in expected.tsv"),
        ("right", {("bert", "eager"): "unsupported"}, "listed as unsupported in expected.tsv"),
        ("skipped", {}, ""),
    ],
)
def test_what_differs_from_the_list_fails(status, listed, said):
    assert run.complaint({"name": "bert", "mode": "eager", "status": status}, listed) == said
