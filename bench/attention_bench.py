"""Times attention of one new token over a KV cache: the op, with caches of several dtypes, against a graph that writes
the rows with index_copy and attends to the whole cache under a mask. The two alternate."""

import time
from functools import partial

from process import times_in_turns

N_HEADS, N_KV, SIZE, ROWS = 32, 8, 128, 4096
POSITIONS = (200, 4000)
CACHES = ("float32", "float16", "int8")


def written_out():
    """Returns the module without the attention op: it writes the rows by index_copy and attends under a mask."""
    import torch

    class Masked(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("keys", torch.zeros(1, N_KV, ROWS, SIZE))
            self.register_buffer("values", torch.zeros(1, N_KV, ROWS, SIZE))

        def forward(self, q, k, v, position):
            positions = position + torch.arange(q.shape[2])
            self.keys.index_copy_(2, positions, k)
            self.values.index_copy_(2, positions, v)
            mask = positions[:, None] >= torch.arange(ROWS)
            attend = torch.nn.functional.scaled_dot_product_attention
            return attend(q, self.keys, self.values, mask, enable_gqa=True)

    return Masked()


def programs(args):
    """Returns {name: path}."""
    import torch

    import clave
    from clave.llm import KVCache

    x = [torch.zeros(1, heads, 1, SIZE) for heads in (N_HEADS, N_KV, N_KV)]
    modules = {"written out": written_out()}
    modules |= {name: KVCache(N_KV, ROWS, SIZE, dtype=getattr(torch, name)) for name in CACHES}
    paths = {name: args.work / f"attention_{name.replace(' ', '_')}.clv" for name in modules}
    args.work.mkdir(parents=True, exist_ok=True)
    for name, module in modules.items():
        clave.export(module, (*x, torch.tensor(0))).save(paths[name])
    return paths


def bench_attention(args):
    import numpy as np

    import clave

    rows = []
    paths = programs(args)
    x = [np.random.default_rng(0).standard_normal((1, h, 1, SIZE)).astype("f") for h in (N_HEADS, N_KV, N_KV)]
    for device in ("cpu", args.device):
        sessions = {name: clave.Session(path, device) for name, path in paths.items()}
        for position in POSITIONS:
            calls = [partial(session.run, *x, np.array(position)) for session in sessions.values()]
            taken = times_in_turns(calls, 20 * args.rounds, time.perf_counter)
            best = {name: 1000 * min(t) for name, t in zip(sessions, taken, strict=True)}
            times = " | ".join(f"{t:.2f}" for t in best.values())
            rows.append(f"| {device} | {position} | {times} | {best['written out'] / best['float32']:.1f} |")
    what = f"{N_HEADS} heads of {SIZE}, {N_KV} of keys, {ROWS} rows"
    head = f"| {what} | position | written out, f32, ms | f32 | f16 | int8 | ratio |"
    return [head, "|---|---|---|---|---|---|---|", *rows]
