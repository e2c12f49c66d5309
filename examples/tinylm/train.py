"""Trains a small Llama and its tokenizer on Shakespeare and writes a Hugging Face folder. Takes half an hour on
one core."""

from __future__ import annotations

import argparse
import math
import random
import sys
from pathlib import Path

import tokenizers
import torch
from tokenizers import decoders, models, pre_tokenizers, processors, trainers
from transformers import LlamaConfig, LlamaForCausalLM

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from example_data import find

BOS = "<|begin_of_text|>"
CONTEXT, VOCABULARY, HELD_OUT = 512, 1024, 0.05


def read_text() -> str:
    """Returns a megabyte of Shakespeare, which `examples/fetch text` downloads."""
    return find("text", "tinyshakespeare.txt").read_text()


def train_tokenizer(text: str) -> tokenizers.Tokenizer:
    """Trains byte-level BPE on runs of letters with a leading space, digits, and line ends with the text after them."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=[BOS], initial_alphabet=alphabet)
    tokenizer.train_from_iterator([text], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", special_tokens=[(BOS, tokenizer.token_to_id(BOS))]
    )
    return tokenizer


def config(bos: int) -> LlamaConfig:
    """Returns the configuration of a model with 1.8 million parameters: 3.6 MB in f16."""
    return LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=192,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=6,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        bos_token_id=bos,
        eos_token_id=None,
    )


class Speeches:
    """Windows of the text that begin where a speaker begins, with BOS before each."""

    def __init__(self, text: str, tokenizer: tokenizers.Tokenizer) -> None:
        self.bos = tokenizer.token_to_id(BOS)
        parts = [p + "\n\n" for p in text.split("\n\n")]
        encoded = [e.ids for e in tokenizer.encode_batch(parts, add_special_tokens=False)]
        self.ids = torch.tensor([i for ids in encoded for i in ids])
        starts = [0]
        for ids in encoded:
            starts.append(starts[-1] + len(ids))
        self.starts = [s for s in starts if s + CONTEXT < len(self.ids)]

    def batch(self, starts: list[int]) -> torch.Tensor:
        """Returns the windows at these starts: (len(starts), CONTEXT + 1)."""
        bos = torch.tensor([self.bos])
        return torch.stack([torch.cat((bos, self.ids[s : s + CONTEXT])) for s in starts])


def loss_of(model: LlamaForCausalLM, batch: torch.Tensor) -> torch.Tensor:
    logits = model(batch[:, :-1]).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())


def held_out_loss(model: LlamaForCausalLM, speeches: Speeches) -> float:
    model.eval()
    with torch.no_grad():
        starts = speeches.starts[:: max(1, len(speeches.starts) // 16)]
        loss = loss_of(model, speeches.batch(starts)).item()
    model.train()
    return loss


def train(model: LlamaForCausalLM, speeches: Speeches, held_out: Speeches, steps: int, folder: Path) -> float:
    """Trains the model and keeps the weights with the lowest held-out loss. Returns that loss in nats per token."""
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=3e-3, betas=(0.9, 0.95))
    warm = min(100, steps // 10)

    def rate(step: int) -> float:
        done = max(0, step - warm) / max(1, steps - warm)
        return min(1.0, (step + 1) / warm) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * done)))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    best, total = math.inf, 0.0
    for step in range(1, steps + 1):
        loss = loss_of(model, speeches.batch(random.sample(speeches.starts, 8)))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        total += loss.item()
        if step % 50 == 0 or step == steps:
            found = held_out_loss(model, held_out)
            print(f"step {step} of {steps}: loss {total / 50:.3f}, held out {found:.3f}", flush=True)
            total = 0.0
            if found < best:
                best = found
                model.save_pretrained(folder)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("-o", "--output", type=Path, default=Path("build/tinylm"))
    args = parser.parse_args()
    random.seed(0)
    torch.manual_seed(0)
    text = read_text()
    cut = text.index("\n\n", int(len(text) * (1 - HELD_OUT))) + 2
    tokenizer = train_tokenizer(text[:cut])
    args.output.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(args.output / "tokenizer.json"))
    model = LlamaForCausalLM(config(tokenizer.token_to_id(BOS)))
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters")
    best = train(model, Speeches(text[:cut], tokenizer), Speeches(text[cut:], tokenizer), args.steps, args.output)
    print(f"wrote {args.output}: {best:.3f} nats per token on held-out text")


if __name__ == "__main__":
    main()
