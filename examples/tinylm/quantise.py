"""What quantised weights cost tinylm: bytes, and nats per token on text it was not trained on, for each form.

With --precision strict fast also what CLAVE_PRECISION=fast adds on the device that CLAVE_DEVICE picks.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path

import safetensors.torch
import torch
from train import CONTEXT, HELD_OUT, TEXT, config
from transformers import LlamaForCausalLM

import clave

HERE = Path(__file__).parent
FORMS = [
    "int8",
    "int8:32",
    "int6:32",
    "int5:32",
    "int4:32",
    "int4:32:zeros",
    "int4:128",
    "int3:32:zeros",
    "int2:16:zeros",
    "e4m3",
    "e5m2",
]
FORMS += ["Q8_0", "Q5_1", "Q5_0", "Q4_1", "Q4_0", "MXFP4"]


class Logits(torch.nn.Module):
    """(1, tokens) -> (1, tokens, vocabulary), without a cache."""

    def __init__(self, model: LlamaForCausalLM) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.model(ids, use_cache=False).logits


def load() -> tuple[LlamaForCausalLM, clave.Tokenizer]:
    """The model as torch's, its weights from tinylm.clv, in f32."""
    program = clave.load(str(HERE / "tinylm.clv"))
    tokenizer = program.tokenizer
    assert tokenizer is not None
    program.set_tokenizer(None)  # a .json program has none
    with tempfile.TemporaryDirectory() as folder:
        program.save(f"{folder}/tinylm.json")
        weights = safetensors.torch.load_file(f"{folder}/consts.safetensors")
    model = LlamaForCausalLM(config(program.metadata["llm"]["bos"])).eval()
    names = model.state_dict()
    found = {n.removeprefix("model."): w.float() for n, w in weights.items() if n.removeprefix("model.") in names}
    missing = model.load_state_dict(found, strict=False).missing_keys
    assert missing == ["lm_head.weight"], missing  # it is the embedding
    return model, tokenizer


def windows(tokenizer: clave.Tokenizer, bos: int, count: int) -> torch.Tensor:
    """(count, CONTEXT + 1) ids of the held-out text, each row after BOS."""
    text = TEXT.read_text()
    text = text[text.index("\n\n", int(len(text) * (1 - HELD_OUT))) + 2 :]
    ids = torch.tensor(tokenizer.encode(text, special="text"))
    rows = ids[: len(ids) // CONTEXT * CONTEXT].view(-1, CONTEXT)[:count]
    return torch.cat([torch.full((len(rows), 1), bos), rows], 1)


def loss_of(program: clave.Program, batch: torch.Tensor, precision: str) -> float:
    """Nats per token."""
    os.environ["CLAVE_PRECISION"] = precision
    session = clave.Session(program)
    losses = []
    for row in batch:
        logits = torch.as_tensor(session.run(row[None, :-1])[0]).float()
        losses.append(torch.nn.functional.cross_entropy(logits[0], row[1:]).item())
    return sum(losses) / len(losses)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--forms", nargs="*", default=FORMS)
    parser.add_argument("--windows", type=int, default=16, help="of 512 tokens")
    parser.add_argument("--precision", nargs="+", default=["strict"], choices=["strict", "fast"])
    parser.add_argument("--json", type=Path, help="also writes {form: [bytes, nats per token of each precision...]}")
    args = parser.parse_args()
    model, tokenizer = load()
    batch = windows(tokenizer, model.config.bos_token_id, args.windows)
    found = {}
    for form in [None, *args.forms]:
        program = clave.export(Logits(model), (batch[:1, :-1],), quantize=form)
        losses = [loss_of(program, batch, p) for p in args.precision]
        size, *_ = found[form or "f32"] = [program.report.constant_bytes, *losses]
        shown = "".join(f"  {loss:.4f}  {loss - found['f32'][1]:+.4f}" for loss in losses)
        print(f"{form or 'f32':<16}{size / 1e6:6.2f} MB{shown}", flush=True)
    if args.json:
        args.json.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
