"""Writes tinylm.clv, which carries its tokenizer, from the Hugging Face folder that train.py wrote."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from transformers import LlamaForCausalLM

import clave
from clave.llm import use_kv_cache


def export(folder: Path) -> clave.Program:
    """Exports the model in f16, with a cache of the length on which it was trained."""
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float16)
    context = model.config.max_position_embeddings
    length = torch.export.Dim("length", min=1, max=context)
    example = (torch.ones(1, 3, dtype=torch.int64), torch.tensor(0))
    program = clave.export(use_kv_cache(model, context), example, dynamic_shapes=({1: length}, None))
    program.set_tokenizer(folder / "tokenizer.json")
    program.metadata = {"llm": {"max_context": context, "bos": model.config.bos_token_id}}
    return program


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("build/tinylm"))
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).with_name("tinylm.clv"))
    args = parser.parse_args()
    export(args.folder).save(args.output)
    print(f"wrote {args.output}: {args.output.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
