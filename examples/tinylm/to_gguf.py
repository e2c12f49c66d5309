"""Writes tinylm.clv's weights and tokenizer as a GGUF file, as llama.cpp would convert its Hugging Face folder."""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import gguf
import numpy as np
from safetensors.numpy import load_file

import clave

N_LAYERS, N_HEADS, N_KV, CONTEXT = 4, 6, 2, 512
CONTROL, NORMAL = 3, 1  # llama.cpp's types of tokens


def weights_of(program: clave.Program) -> dict[str, np.ndarray]:
    """Returns the weights by transformers' names."""
    with tempfile.TemporaryDirectory() as folder:
        program.save(Path(folder) / "m.json")
        found = load_file(Path(folder) / "consts.safetensors")
    return {k.removeprefix("model."): v for k, v in found.items()}


def permuted(rows: np.ndarray, n_heads: int) -> np.ndarray:
    """Reorders rows: llama.cpp rotates pairs of neighbours, transformers pairs from the two halves of a head."""
    return rows.reshape(n_heads, 2, -1, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape)


def add_tokenizer(writer: gguf.GGUFWriter, file: bytes) -> None:
    """file: a tokenizer.json."""
    j = json.loads(file)
    tokens = sorted(j["model"]["vocab"], key=j["model"]["vocab"].get)
    special = {a["id"] for a in j["added_tokens"]}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([CONTROL if i in special else NORMAL for i in range(len(tokens))])
    writer.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in j["model"]["merges"]])
    writer.add_bos_token_id(min(special))
    writer.add_add_bos_token(True)


def add_keys(writer: gguf.GGUFWriter, size: int, n_hidden: int) -> None:
    writer.add_block_count(N_LAYERS)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(size)
    writer.add_feed_forward_length(n_hidden)
    writer.add_head_count(N_HEADS)
    writer.add_head_count_kv(N_KV)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(10000.0)


def add_weights(writer: gguf.GGUFWriter, weights: dict[str, np.ndarray], kind: gguf.GGMLQuantizationType) -> None:
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, N_LAYERS)
    for key, x in weights.items():
        name = names.get_name(key, try_suffixes=(".weight",))
        if name is None or x.ndim > 2:
            continue
        x = x.astype(np.float32)
        if name.split(".")[-2] in ("attn_q", "attn_k"):
            x = permuted(x, N_HEADS if "attn_q" in name else N_KV)
        own = kind if x.ndim == 2 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(name, gguf.quantize(x, own), raw_dtype=own)


def write(path: Path, kind: str) -> None:
    """kind: type of the matrices, "F32", "F16", "Q8_0" or "Q4_0"."""
    program = clave.load(Path(__file__).with_name("tinylm.clv"))
    tokenizer = program.tokenizer_file
    program.set_tokenizer(None)  # a .json program cannot carry one
    weights = weights_of(program)
    writer = gguf.GGUFWriter(path, "llama")
    size = weights["model.norm.weight"].shape[0]
    add_keys(writer, size, weights["model.layers.0.mlp.up_proj.weight"].shape[0])
    add_tokenizer(writer, tokenizer)
    add_weights(writer, weights, gguf.GGMLQuantizationType[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=Path("build/tinylm.gguf"))
    parser.add_argument("--type", choices=["F32", "F16", "Q8_0", "Q4_0"], default="F16", help="type of the matrices")
    args = parser.parse_args()
    write(args.output, args.type)
    print(f"wrote {args.output}")


if __name__ == "__main__":
    main()
