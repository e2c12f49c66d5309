"""The decoder of a GGUF file as a torch module, whose parameters have the names of the file's tensors."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from clave.errors import Error
from clave.gguf.architectures import Numbers, Rope
from clave.gguf.file import File
from clave.gguf.rope import frequencies, magnitude
from clave.gguf.weights import Weights
from clave.llm.layers import KVCache, Layer, ring
from clave.llm.options import check_capacity
from clave.ops import rope


def _constant(x: torch.Tensor) -> nn.Parameter:
    return nn.Parameter(x, requires_grad=False)


class Linear(nn.Module):
    """A linear layer with f32 inputs and results and a weight of any dtype."""

    def __init__(self, weights: Weights, name: str, rows: int, columns: int) -> None:
        super().__init__()
        self.weight = _constant(weights.matrix(f"{name}.weight", rows, columns))
        has_bias = f"{name}.bias" in weights
        self.bias = _constant(weights.vector(f"{name}.bias", rows)) if has_bias else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.weight.float(), self.bias)


class Norm(nn.Module):
    def __init__(self, weights: Weights, name: str, size: int, eps: float) -> None:
        super().__init__()
        self.weight = _constant(weights.vector(f"{name}.weight", size))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)


class Block(nn.Module):
    """One layer of the decoder. Decoder.make_caches sets `cache`."""

    cache: KVCache

    def __init__(self, weights: Weights, n: Numbers, index: int) -> None:
        super().__init__()
        a, at = n.architecture, f"blk.{index}"
        self.n = n
        self.is_local = n.windows[index] is not None
        self.sizes = (n.n_heads * n.key_size, n.n_kv * n.key_size, n.n_kv * n.value_size)
        self.attn_norm = Norm(weights, f"{at}.attn_norm", n.size, n.eps)
        if a.merged:
            self.attn_qkv = Linear(weights, f"{at}.attn_qkv", sum(self.sizes), n.size)
        else:
            for name, rows in zip(("attn_q", "attn_k", "attn_v"), self.sizes, strict=True):
                setattr(self, name, Linear(weights, f"{at}.{name}", rows, n.size))
        self.attn_output = Linear(weights, f"{at}.attn_output", n.size, n.n_heads * n.value_size)
        if a.normed_heads:
            self.attn_q_norm = Norm(weights, f"{at}.attn_q_norm", n.key_size, n.eps)
            self.attn_k_norm = Norm(weights, f"{at}.attn_k_norm", n.key_size, n.eps)
        if a.post_norms:
            self.post_attention_norm = Norm(weights, f"{at}.post_attention_norm", n.size, n.eps)
            self.post_ffw_norm = Norm(weights, f"{at}.post_ffw_norm", n.size, n.eps)
        self.ffn_norm = Norm(weights, f"{at}.ffn_norm", n.size, n.eps)
        if not a.merged:
            self.ffn_gate = Linear(weights, f"{at}.ffn_gate", n.n_hidden, n.size)
        self.ffn_up = Linear(weights, f"{at}.ffn_up", n.n_hidden * (2 if a.merged else 1), n.size)
        self.ffn_down = Linear(weights, f"{at}.ffn_down", n.size, n.n_hidden)

    def forward(self, x: torch.Tensor, angles: Any, position: torch.Tensor) -> torch.Tensor:
        """Returns the layer's result, in the shape of x: (1, L, size), f32."""
        y = self._attention(self.attn_norm(x), angles, position)
        x = x + (self.post_attention_norm(y) if self.n.architecture.post_norms else y)
        y = self._feed_forward(self.ffn_norm(x))
        return x + (self.post_ffw_norm(y) if self.n.architecture.post_norms else y)

    def _attention(self, x: torch.Tensor, angles: Any, position: torch.Tensor) -> torch.Tensor:
        n = self.n
        if n.architecture.merged:
            q, k, v = self.attn_qkv(x).split(self.sizes, -1)
        else:
            q, k, v = self.attn_q(x), self.attn_k(x), self.attn_v(x)
        q, k, v = q.unflatten(-1, (n.n_heads, -1)), k.unflatten(-1, (n.n_kv, -1)), v.unflatten(-1, (n.n_kv, -1))
        if n.architecture.normed_heads:
            q, k = self.attn_q_norm(q), self.attn_k_norm(k)
        q, k = self._rotate(q, *angles), self._rotate(k, *angles)
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        y = self.cache(q, k, v, position, n.scale, n.attention_cap)
        return self.attn_output(y.transpose(1, 2).flatten(-2))  # type: ignore[no-any-return]

    def _rotate(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """Rotates the first `rope.dims` dimensions of each head."""
        dims, interleaved = self.n.rope.dims, self.n.architecture.interleaved
        if dims == self.n.key_size:
            return rope(x, cos, sin, interleaved)
        return torch.cat((rope(x[..., :dims], cos, sin, interleaved), x[..., dims:]), -1)

    def _feed_forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.n.architecture.merged:
            gate, up = self.ffn_up(x).chunk(2, -1)
        else:
            gate, up = self.ffn_gate(x), self.ffn_up(x)
        gate = F.gelu(gate, approximate="tanh") if self.n.architecture.gelu else F.silu(gate)
        return self.ffn_down(gate * up)  # type: ignore[no-any-return]


class Angles(nn.Module):
    """Computes cos and sin of positions (L,): (L, dims / 2) each, f32. Raises Error if the file's numbers result in
    frequencies that are not finite."""

    def __init__(self, weights: Weights, rope: Rope, factors: Any, context: int) -> None:
        super().__init__()
        found = torch.from_numpy(frequencies(rope, factors))
        if not bool(found.isfinite().all()):
            raise weights.file.error("rope's base, factor or factors produce frequencies that are not finite")
        self.register_buffer("frequencies", found, persistent=False)
        self.magnitude = magnitude(rope, context)

    def forward(self, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        angles = positions.float()[:, None] * self.frequencies
        if self.magnitude == 1:
            return angles.cos(), angles.sin()
        return angles.cos() * self.magnitude, angles.sin() * self.magnitude


class Decoder(nn.Module):
    """forward(tokens, position) returns the logits of the last token, (1, n_vocab), f32.

    tokens: (1, L) int64, for the positions position, position + 1, ... position: () int64, below max_context.
    `make_caches` creates the KV caches after all tensors are read.
    """

    def __init__(self, weights: Weights, n: Numbers, max_context: int) -> None:
        super().__init__()
        self.n, self.max_context = n, max_context
        self.token_embd = nn.Module()
        self.token_embd.weight = _constant(weights.matrix("token_embd.weight", None, n.size))
        self.n_vocab = self.token_embd.weight.shape[0]
        self.blk = nn.ModuleList(Block(weights, n, i) for i in range(n.n_layers))
        self.output_norm = Norm(weights, "output_norm", n.size, n.eps)
        self.output = Linear(weights, "output", self.n_vocab, n.size) if "output.weight" in weights else None
        self.angles = Angles(weights, n.rope, _factors(weights, n.rope, max_context), n.context)
        self.local_angles = self.angles if n.local == n.rope else Angles(weights, n.local, None, n.context)

    def make_caches(self, file: File, dtype: torch.dtype, prompt_piece: int) -> None:
        """Creates the KV caches. Raises Error if they do not fit into this machine's memory."""
        n = self.n
        rings = [ring(window, self.max_context, prompt_piece) for window in n.windows]
        size = Layer(n.n_kv, n.key_size, n.value_size, dtype).bytes()
        try:
            check_capacity(self.max_context, size * sum(rows for rows, _ in rings))
        except Error as e:
            raise file.error(str(e), e.code) from None
        for block, (rows, window) in zip(self.blk, rings, strict=True):
            block.cache = KVCache(n.n_kv, rows, n.key_size, n.value_size, dtype=dtype, window=window)

    def forward(self, tokens: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        positions = position + torch.arange(tokens.shape[1])
        angles, local = self.angles(positions), self.local_angles(positions)
        x = F.embedding(tokens, self.token_embd.weight).float()
        if self.n.architecture.scaled_embeddings:
            x = x * self.n.size**0.5
        for block in self.blk:
            x = block(x, local if block.is_local else angles, position)
        logits = self._logits(self.output_norm(x[:, -1]))
        cap = self.n.logits_cap
        return logits if cap is None else torch.tanh(logits / cap) * cap

    def _logits(self, x: torch.Tensor) -> torch.Tensor:
        if self.output is not None:
            return self.output(x)  # type: ignore[no-any-return]
        return F.linear(x, self.token_embd.weight.float())


def _factors(weights: Weights, rope: Rope, max_context: int) -> Any:
    """Returns the file's divisors of frequencies, (dims / 2) f64, or None. LongRoPE has other divisors for contexts
    that are longer than the original one."""
    if rope.kind == "longrope":
        longer = max_context > rope.original
        found = [weights.vector(f"rope_factors_{w}.weight", rope.dims // 2) for w in ("short", "long")]
        return _positive(weights, found[longer])
    if "rope_freqs.weight" in weights:
        return _positive(weights, weights.vector("rope_freqs.weight", rope.dims // 2))
    return None


def _positive(weights: Weights, factors: torch.Tensor) -> Any:
    if not bool((factors.isfinite() & (factors > 0)).all()):
        raise weights.file.error("has rope factors that are not positive numbers")
    return factors.numpy().astype("float64")
