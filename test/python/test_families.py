"""Small models of real families, as Hugging Face writes them: exported, run on both backends, compared with torch.

The rest of test/families: `python test/families/run.py`. Needs what is not part of `make check`
(ci/requirements-families.txt).
"""

import sys
from pathlib import Path

import pytest

pytest.importorskip("diffusers", reason="needs ci/requirements-families.txt")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "families"))
import check
import zoo

# family: the patterns that must be found in it, and how often.
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


@pytest.mark.parametrize("name", FAMILIES)
def test_family(name):
    if name in zoo.ROWS:
        pytest.importorskip(zoo.ROWS[name][0])
    result = check.family(name, ["cpu", "opencl"])
    assert result["status"] == "right", result
    assert {k: result["passes"].get(k) for k in FAMILIES[name]} == FAMILIES[name]
