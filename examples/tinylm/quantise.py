"""Measures tinylm with quantised weights for each encoding: bytes, error of a weight, nats per token on held-out text.

With --precision strict fast, also measures the loss with CLAVE_PRECISION=fast on the device of CLAVE_DEVICE.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path

import safetensors.torch
import torch
from train import CONTEXT, HELD_OUT, config, read_text
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


# Per encoding: elements of a group; half a step of its codes, as a share of the largest magnitude or of the range that
# includes 0.
HALF_STEPS = {
    "Q8_0": (32, 1 / 254, "largest"),
    "Q5_1": (32, 1 / 62, "range"),
    "Q5_0": (32, 1 / 32, "largest"),
    "Q4_1": (32, 1 / 30, "range"),
    "Q4_0": (32, 1 / 16, "largest"),
    "MXFP4": (32, 1 / 4, "largest"),  # codes 4 and 6 are 2 apart; the largest magnitude is 4 to 8
}


def half_step(form: str, weight: torch.Tensor) -> torch.Tensor:
    """Returns the largest error of rounding each element of a weight (n, k) to the nearest code: (n, k). Codes at the
    end of their range may have larger errors."""
    if form in ("e4m3", "e5m2"):
        return weight.abs() * 2.0 ** -(1 + int(form[-1]))
    name, *more = form.split(":")
    size, share, of = HALF_STEPS.get(name, (0, 0.0, ""))
    if not of:
        codes, zeros = 2 ** int(name[3:]), "zeros" in more
        size = int(more[0]) if more else weight.shape[1]
        share, of = (0.5 / (codes - 1), "range") if zeros else (1 / codes, "largest")
    groups = weight.unflatten(1, (-1, size))
    if of == "largest":
        width = groups.abs().amax(-1, True)
    else:
        width = groups.amax(-1, True).clamp(min=0) - groups.amin(-1, True).clamp(max=0)
    return (share * width).expand_as(groups).flatten(1)


class Rows(torch.nn.Module):
    """A model that returns rows of some matrices of weights."""

    def __init__(self, weights: list[torch.Tensor]) -> None:
        super().__init__()
        self.weights = torch.nn.ParameterList(weights)

    def forward(self, *ids: torch.Tensor) -> list[torch.Tensor]:
        return [torch.nn.functional.embedding(i, w) for i, w in zip(ids, self.weights, strict=True)]


def error_of(model: LlamaForCausalLM, form: str) -> float:
    """Returns the root mean square of an encoding's errors of the model's weights, relative to that of half a step."""
    matrices = [p.detach() for p in model.parameters() if p.dim() == 2]
    weights = [torch.cat([m for m in matrices if m.shape[1] == k]) for k in sorted({m.shape[1] for m in matrices})]
    weights = [w[:, : w.shape[1] // 128 * 128].contiguous() for w in weights]  # groups of all sizes are whole
    ids = tuple(torch.arange(len(w)) for w in weights)
    decoded = clave.Session(clave.export(Rows(weights), ids, quantize=form), "cpu")(*ids)
    off = sum((d - w).square().sum() for d, w in zip(decoded, weights, strict=True))
    return float((off / sum(half_step(form, w).square().sum() for w in weights)).sqrt())


class Logits(torch.nn.Module):
    """Maps (1, tokens) to logits (1, tokens, vocabulary), without a cache."""

    def __init__(self, model: LlamaForCausalLM) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.model(ids, use_cache=False).logits


def load() -> tuple[LlamaForCausalLM, clave.Tokenizer]:
    """Returns the model in torch, with the weights of tinylm.clv in f32."""
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
    """Returns ids of the held-out text, (count, CONTEXT + 1); each row begins with BOS."""
    text = read_text()
    text = text[text.index("\n\n", int(len(text) * (1 - HELD_OUT))) + 2 :]
    ids = torch.tensor(tokenizer.encode(text, special="text"))
    rows = ids[: len(ids) // CONTEXT * CONTEXT].view(-1, CONTEXT)[:count]
    return torch.cat([torch.full((len(rows), 1), bos), rows], 1)


def loss_of(program: clave.Program, batch: torch.Tensor, precision: str) -> float:
    """Returns the loss in nats per token."""
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
    parser.add_argument("--windows", type=int, default=16, help="number of windows of 512 tokens")
    parser.add_argument("--precision", nargs="+", default=["strict"], choices=["strict", "fast"])
    parser.add_argument(
        "--json", type=Path, help="also write {form: [bytes, error of a weight, nats per token of each precision...]}"
    )
    args = parser.parse_args()
    model, tokenizer = load()
    batch = windows(tokenizer, model.config.bos_token_id, args.windows)
    found = {}
    for form in [None, *args.forms]:
        program = clave.export(Logits(model), (batch[:1, :-1],), quantize=form)
        losses = [loss_of(program, batch, p) for p in args.precision]
        error = error_of(model, form) if form else 0.0
        found[form or "f32"] = [program.report.constant_bytes, error, *losses]
        shown = "".join(f"  {loss:.4f}  {loss - found['f32'][2]:+.4f}" for loss in losses)
        print(f"{form or 'f32':<16}{program.report.constant_bytes / 1e6:6.2f} MB  {error:.3f}{shown}", flush=True)
    if args.json:
        args.json.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
