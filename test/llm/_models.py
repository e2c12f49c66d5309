"""Small language models for tests: what comes next depends on every token before, and on where it stands."""

import base64

import torch
from torch import nn

import clave

CONTEXT, VOCAB = 64, 300
LENGTH = torch.export.Dim("length", min=1, max=CONTEXT)


class Next(nn.Module):
    """The cache keeps the tokens; a row of a random table, chosen by their sum, is the logits of what follows."""

    def __init__(self, dtype=torch.float32, every=False, each=False, context=CONTEXT):
        super().__init__()
        self.each = each  # it is told the position of every token
        self.every = every  # the logits of every token: (1, L, V) instead of (1, V)
        self.register_buffer("seen", torch.zeros(1, 1, context, 1))
        table = torch.randn(97, VOCAB, generator=torch.Generator().manual_seed(4))
        self.register_buffer("table", table.to(dtype))

    def forward(self, tokens, position):
        positions = position if self.each else position + torch.arange(tokens.shape[-1])
        self.seen.index_copy_(2, positions, tokens.reshape(1, 1, -1, 1).float())
        before = torch.arange(self.seen.shape[2])[None, :] <= positions[:, None]
        sums = (self.seen[0, 0, :, 0][None] * before).sum(1).long()
        logits = self.table[(31 * sums + 7 * positions) % 97][None]
        return logits if self.every else logits[:, -1]


def arguments(length, form="scalar"):
    """form: how the position is given: "scalar" (), "vector" (1) or "each" (L)."""
    position = {"scalar": torch.tensor(0), "vector": torch.zeros(1, dtype=torch.int64)}
    return torch.ones(1, length, dtype=torch.int64), position.get(form, torch.arange(length))


def export(path, form="scalar", fixed=None, tokenizer=None, llm=None, **options):
    """One method, forward; L is dynamic unless it is fixed. tokenizer: a file; llm: metadata."""
    shapes = None if fixed else ({1: LENGTH}, {0: LENGTH} if form == "each" else None)
    program = clave.export(Next(each=form == "each", **options), arguments(fixed or 3, form), dynamic_shapes=shapes)
    program.set_tokenizer(tokenizer)
    if llm is not None:
        program.metadata = {"llm": llm}
    program.save(path)
    return path


def reference(prompt, n, dtype=torch.float32):
    """The n likeliest tokens after the prompt, by torch."""
    model, ids = Next(dtype), list(prompt)
    with torch.no_grad():
        logits = model(torch.tensor([ids]), torch.tensor(0))
        while len(ids) < len(prompt) + n:
            ids.append(int(logits[0].float().argmax()))
            logits = model(torch.tensor([ids[-1:]]), torch.tensor(len(ids) - 1))
    return ids[len(prompt) :]


def byte_ranks(path):
    """A tiktoken file whose ids are bytes."""
    path.write_bytes(b"".join(base64.b64encode(bytes([i])) + b" %d\n" % i for i in range(256)))
    return path


def byte_tokenizer(path, special=("<s>", "</s>", "<|im_start|>", "<|im_end|>")):
    """A tokenizer.json whose ids are bytes, the special tokens behind them."""
    import tokenizers
    from tokenizers import decoders, models, pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    t = tokenizers.Tokenizer(models.BPE({c: i for i, c in enumerate(letters)}, []))
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens(list(special))
    t.save(str(path))
    return path
