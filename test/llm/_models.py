"""Small language models for tests: the next token depends on every token before it and on the position."""

import base64

import torch
from torch import nn

import clave
from clave.llm import KVCache
from clave.ops import ssm_scan

CONTEXT, VOCAB = 64, 300
LENGTH = torch.export.Dim("length", min=1, max=CONTEXT)


class Next(nn.Module):
    """Keeps the tokens in the cache. The logits are a row of a random table, chosen by the sum of the tokens."""

    def __init__(self, dtype=torch.float32, every=False, each=False, context=CONTEXT):
        super().__init__()
        self.each = each  # if true, the position of every token is an input
        self.every = every  # if true, returns the logits of every token, (1, L, V), instead of (1, V)
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


class Scans(nn.Module):
    """A convolution and a recurrence: their state has no row per token."""

    def __init__(self, every=False):
        super().__init__()
        torch.manual_seed(5)
        self.every = every
        self.embed, self.mix, self.out = nn.Embedding(VOCAB, 16), nn.Linear(16, 10), nn.Linear(16, VOCAB)
        self.weight = nn.Parameter(torch.randn(16, 1, 3))
        self.register_buffer("before", torch.zeros(1, 16, 2))
        self.register_buffer("state", torch.zeros(1, 4, 4, 3))

    def forward(self, tokens, position):
        seen = torch.cat([self.before, self.embed(tokens).mT], -1)
        self.before.copy_(seen[..., -2:])
        x = nn.functional.conv1d(seen, self.weight, groups=16).mT
        decay, b, c = self.mix(x).split([4, 3, 3], -1)
        decay = -0.2 * nn.functional.softplus(decay)
        y = ssm_scan(x.unflatten(2, (4, 4)), decay, b[:, :, None], c[:, :, None], self.state)
        logits = self.out(x + y.flatten(2))
        return logits if self.every else logits[:, -1]


class Attends(nn.Module):
    """Attention over a cache that may be in pages."""

    def __init__(self, context=CONTEXT):
        super().__init__()
        generator = torch.Generator().manual_seed(4)
        self.tokens = nn.Parameter(torch.randn(VOCAB, 16, generator=generator))
        self.places = nn.Parameter(torch.randn(context, 16, generator=generator))
        self.cache = KVCache(2, context, 8)

    def forward(self, tokens, position):
        x = self.tokens[tokens] + self.places[position + torch.arange(tokens.shape[1])]
        heads = x.unflatten(-1, (2, 8)).transpose(1, 2)
        x = x + self.cache(heads, heads, heads, position).transpose(1, 2).flatten(2)
        return x[:, -1] @ self.tokens.T


def arguments(length, form="scalar"):
    """form: how the position is passed: "scalar" (), "vector" (1) or "each" (L)."""
    position = {"scalar": torch.tensor(0), "vector": torch.zeros(1, dtype=torch.int64)}
    return torch.ones(1, length, dtype=torch.int64), position.get(form, torch.arange(length))


def export(path, form="scalar", fixed=None, tokenizer=None, llm=None, **options):
    """Exports one method, forward; L is dynamic unless it is fixed. tokenizer: a file; llm: metadata."""
    shapes = None if fixed else ({1: LENGTH}, {0: LENGTH} if form == "each" else None)
    program = clave.export(Next(each=form == "each", **options), arguments(fixed or 3, form), dynamic_shapes=shapes)
    program.set_tokenizer(tokenizer)
    if llm is not None:
        program.metadata = {"llm": llm}
    program.save(path)
    return path


def export_attention(path, context, tokenizer=None, llm=None):
    length = torch.export.Dim("length", min=1, max=context)
    program = clave.export(Attends(context).eval(), arguments(3), dynamic_shapes=({1: length}, None))
    program.set_tokenizer(tokenizer)
    if llm is not None:
        program.metadata = {"llm": llm}
    program.save(path)
    return path


def reference(prompt, n, dtype=torch.float32):
    """Returns the n likeliest tokens after the prompt, by torch."""
    model, ids = Next(dtype), list(prompt)
    with torch.no_grad():
        logits = model(torch.tensor([ids]), torch.tensor(0))
        while len(ids) < len(prompt) + n:
            ids.append(int(logits[0].float().argmax()))
            logits = model(torch.tensor([ids[-1:]]), torch.tensor(len(ids) - 1))
    return ids[len(prompt) :]


def byte_ranks(path):
    """Writes a tiktoken file whose ids are bytes."""
    path.write_bytes(b"".join(base64.b64encode(bytes([i])) + b" %d\n" % i for i in range(256)))
    return path


def byte_tokenizer(path, special=("<s>", "</s>", "<|im_start|>", "<|im_end|>")):
    """Writes a tokenizer.json whose ids are bytes, followed by the special tokens."""
    import tokenizers
    from tokenizers import decoders, models, pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    t = tokenizers.Tokenizer(models.BPE({c: i for i, c in enumerate(letters)}, []))
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens(list(special))
    t.save(str(path))
    return path
