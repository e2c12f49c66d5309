"""A small, readable Llama in torch: stories260K, which tells children's stories.

The KV cache is a pair of buffers per layer that clave.ops.sdpa_with_kv_cache changes in place. torch.export exports
them as mutated buffers, and clave keeps them as the session's state. Tensor names are those of Meta's checkpoints.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from clave.ops import rope, sdpa_with_kv_cache

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from example_data import find


class Attention(nn.Module):
    """Attention in the dtype of its weights and cache: rounds its input to that dtype; its output is added in f32."""

    def __init__(self, p: dict, dtype: torch.dtype) -> None:
        super().__init__()
        self.head_dim = p["dim"] // p["n_heads"]
        n_kv = p["n_kv_heads"] * self.head_dim
        self.wq = nn.Linear(p["dim"], p["dim"], bias=False, dtype=dtype)
        self.wk = nn.Linear(p["dim"], n_kv, bias=False, dtype=dtype)
        self.wv = nn.Linear(p["dim"], n_kv, bias=False, dtype=dtype)
        self.wo = nn.Linear(p["dim"], p["dim"], bias=False, dtype=dtype)
        cache = torch.zeros(1, p["n_kv_heads"], p["max_seq_len"], self.head_dim, dtype=dtype)
        self.register_buffer("keys", cache, persistent=False)
        self.register_buffer("values", cache.clone(), persistent=False)

    def forward(self, x, cos, sin, position):
        """x: (1, L, dim), at positions position, position + 1, ..."""
        x = x.to(self.keys.dtype)
        q, k, v = (w(x).unflatten(-1, (-1, self.head_dim)) for w in (self.wq, self.wk, self.wv))
        q, k = (rope(t.float(), cos, sin).to(t.dtype) for t in (q, k))
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        y = sdpa_with_kv_cache(q, k, v, self.keys, self.values, position)
        return self.wo(y.transpose(1, 2).flatten(-2)).float()


class FeedForward(nn.Module):
    def __init__(self, p: dict, dtype: torch.dtype) -> None:
        super().__init__()
        self.w1 = nn.Linear(p["dim"], p["hidden_dim"], bias=False, dtype=dtype)
        self.w2 = nn.Linear(p["hidden_dim"], p["dim"], bias=False, dtype=dtype)
        self.w3 = nn.Linear(p["dim"], p["hidden_dim"], bias=False, dtype=dtype)

    def forward(self, x):
        x = x.to(self.w1.weight.dtype)
        return self.w2(F.silu(self.w1(x)) * self.w3(x)).float()


class Layer(nn.Module):
    def __init__(self, p: dict, dtype: torch.dtype) -> None:
        super().__init__()
        self.attention = Attention(p, dtype)
        self.feed_forward = FeedForward(p, dtype)
        self.attention_norm = nn.RMSNorm(p["dim"], p["norm_eps"])
        self.ffn_norm = nn.RMSNorm(p["dim"], p["norm_eps"])

    def forward(self, x, *where):
        x = x + self.attention(self.attention_norm(x), *where)
        return x + self.feed_forward(self.ffn_norm(x))


class Llama(nn.Module):
    """forward(tokens, position): tokens (1, L) i64, at positions position, position + 1, ...; position () i64.

    Returns the logits of the last token, (1, vocab_size). The tokens before `position` are those of earlier calls.
    dtype: that of the layers' matrices and of the cache, which need most of the memory. Values between layers, norms,
    rotation and logits are f32.
    """

    def __init__(self, p: dict, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.tok_embeddings = nn.Embedding(p["vocab_size"], p["dim"])
        self.layers = nn.ModuleList(Layer(p, dtype) for _ in range(p["n_layers"]))
        self.norm = nn.RMSNorm(p["dim"], p["norm_eps"])
        self.output = nn.Linear(p["dim"], p["vocab_size"], bias=False)
        self.output.weight = self.tok_embeddings.weight
        half = torch.arange(0, p["dim"] // p["n_heads"], 2)
        angles = torch.outer(torch.arange(p["max_seq_len"]), p["rope_theta"] ** (-half / (2 * len(half))))
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, tokens: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        positions = position + torch.arange(tokens.shape[1])
        cos, sin = self.cos[positions], self.sin[positions]
        x = self.tok_embeddings(tokens)
        for layer in self.layers:
            x = layer(x, cos, sin, position)
        return self.output(self.norm(x[:, -1]))


def read_checkpoint(path: Path) -> tuple[dict, dict[str, torch.Tensor]]:
    """Reads the parameters and weights of a model.bin of llama2.c: seven integers, then floats. Each weight is
    stored for all layers together."""
    stored = path.read_bytes()
    names = ("dim", "hidden_dim", "n_layers", "n_heads", "n_kv_heads", "vocab_size", "max_seq_len")
    p = dict(zip(names, np.frombuffer(stored, "<i4", 7).tolist(), strict=True))
    n, dim, hidden = p["n_layers"], p["dim"], p["hidden_dim"]
    n_kv = dim // p["n_heads"] * p["n_kv_heads"]
    floats, at, weights = np.frombuffer(stored, "<f4", offset=28), 0, {}

    def take(*shape: int) -> torch.Tensor:
        nonlocal at
        at += int(np.prod(shape))
        return torch.from_numpy(floats[at - int(np.prod(shape)) : at].reshape(shape).copy())

    weights["tok_embeddings.weight"] = take(p["vocab_size"], dim)
    layers = {"attention_norm": (dim,), "attention.wq": (dim, dim), "attention.wk": (n_kv, dim)}
    layers |= {"attention.wv": (n_kv, dim), "attention.wo": (dim, dim), "ffn_norm": (dim,)}
    layers |= {f"feed_forward.w{i}": (dim, hidden) if i == 2 else (hidden, dim) for i in (1, 2, 3)}
    for name, shape in layers.items():
        weights |= {f"layers.{i}.{name}.weight": w for i, w in enumerate(take(n, *shape))}
    weights["norm.weight"] = take(dim)
    return p | {"norm_eps": 1e-5, "rope_theta": 10000.0}, weights


def load(dtype: torch.dtype = torch.float32) -> Llama:
    """Returns the trained network, in eval mode; its output matrix is the embedding matrix."""
    p, weights = read_checkpoint(find("stories260K", "stories260K.bin"))
    model = Llama(p, dtype)
    model.load_state_dict(weights | {"output.weight": weights["tok_embeddings.weight"]})
    return model.eval()
