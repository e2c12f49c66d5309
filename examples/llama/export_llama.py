"""Exports a Llama for run_llama: prog.json, consts.safetensors and prompt_ids.txt.

--model is a Hugging Face folder (weights, config.json, a tokenizer); by default it is the model of examples/tinylm.
--stories exports stories260K, with its weights renamed as in transformers (examples/fetch stories260K downloads it).
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

import clave
from clave.llm import use_kv_cache

EXAMPLES = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(EXAMPLES))
from example_data import find

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
NAMES = {  # names of a layer's parameters: Meta's to transformers'
    "attention.wq": "self_attn.q_proj",
    "attention.wk": "self_attn.k_proj",
    "attention.wv": "self_attn.v_proj",
    "attention.wo": "self_attn.o_proj",
    "feed_forward.w1": "mlp.gate_proj",
    "feed_forward.w2": "mlp.down_proj",
    "feed_forward.w3": "mlp.up_proj",
    "attention_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}
OUTER = {"tok_embeddings": "model.embed_tokens", "norm": "model.norm", "output": "lm_head"}


def halves(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """Reorders a projection's rows from rotated pairs (2i, 2i + 1) to pairs (i, i + head_dim / 2)."""
    return weight.unflatten(0, (heads, -1, 2)).transpose(1, 2).flatten(0, 2)


def example(path: str) -> ModuleType:
    """Imports a module of another example, with that example's folder in sys.path."""
    file = EXAMPLES / path
    sys.path.insert(0, str(file.parent))
    spec = importlib.util.spec_from_file_location(path.replace("/", "_").removesuffix(".py"), file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load_stories() -> LlamaForCausalLM:
    """Loads stories260K, with Meta's parameters renamed and reordered for transformers."""
    checkpoint = find("stories260K", "stories260K.bin")
    p, stored = example("stories260k/model.py").read_checkpoint(checkpoint)
    config = LlamaConfig(
        vocab_size=p["vocab_size"],
        hidden_size=p["dim"],
        intermediate_size=p["hidden_dim"],
        num_hidden_layers=p["n_layers"],
        num_attention_heads=p["n_heads"],
        num_key_value_heads=p["n_kv_heads"],
        max_position_embeddings=p["max_seq_len"],
        rms_norm_eps=p["norm_eps"],
        rope_parameters={"rope_type": "default", "rope_theta": p["rope_theta"]},
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=2,
    )
    weights = {}
    for name, value in stored.items():
        stem = name.removesuffix(".weight")
        if stem.startswith("layers."):
            _, layer, part = stem.split(".", 2)
            heads = {"attention.wq": p["n_heads"], "attention.wk": p["n_kv_heads"]}.get(part)
            weights[f"model.layers.{layer}.{NAMES[part]}.weight"] = halves(value, heads) if heads else value
        else:
            weights[f"{OUTER[stem]}.weight"] = value
    model = LlamaForCausalLM(config)
    model.load_state_dict(weights, strict=False)
    model.tie_weights()
    return model


def export(model: LlamaForCausalLM, context: int) -> clave.Program:
    length = torch.export.Dim("length", min=1, max=context)
    example = (torch.ones(1, 3, dtype=torch.int64), torch.tensor(0))
    program = clave.export(use_kv_cache(model, context), example, dynamic_shapes=({1: length}, None))
    stop = model.config.eos_token_id
    stop = [] if stop is None else stop if isinstance(stop, list) else [stop]
    program.metadata = {"llm": {"max_context": context, "bos": model.config.bos_token_id, "stop_ids": stop}}
    return program


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, help="a Hugging Face folder; default: examples/tinylm")
    parser.add_argument("--stories", action="store_true", help="export stories260K instead of a folder")
    parser.add_argument("--prompt", default="ROMEO:", help="default: %(default)s")
    parser.add_argument("--dtype", choices=DTYPES, default="f32")
    parser.add_argument("--max-context", type=int, help="tokens in the cache; default: the model's own context")
    parser.add_argument("-o", "--output", type=Path, default=Path("build/llama"), help="folder; default: %(default)s")
    args = parser.parse_args()
    if args.model:
        model, tokenizer = AutoModelForCausalLM.from_pretrained(args.model), clave.Tokenizer(args.model)
    elif args.stories:
        model, tokenizer = load_stories(), clave.Tokenizer(find("stories260K", "tok512.model"))
    else:
        model, tokenizer = example("tinylm/quantise.py").load()
    program = export(model.to(DTYPES[args.dtype]), args.max_context or model.config.max_position_embeddings)
    args.output.mkdir(parents=True, exist_ok=True)
    program.save(args.output / "prog.json")
    ids = tokenizer.encode(args.prompt, bos=True)
    (args.output / "prompt_ids.txt").write_text(" ".join(map(str, ids)) + "\n")
    print(f"wrote prog.json, consts.safetensors and prompt_ids.txt ({len(ids)} ids) to {args.output}")


if __name__ == "__main__":
    main()
