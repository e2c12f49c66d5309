"""clave's sampler through ctypes, and its reference in numpy."""

import ctypes as C

import numpy as np

from clave import _library as L


def options(bias=None, **values):
    """Returns options. bias: {id: bias}; the others by name."""
    o = L.SamplerOptions(**values)
    o.list = (L.LogitBias * len(bias or {}))(*(bias or {}).items())
    o.bias, o.n_bias = o.list, len(o.list)
    return o


class Sampler:
    def __init__(self, o):
        self.library = L.library()
        for name in ("create", "sample"):
            getattr(self.library, f"clave_sampler_{name}").restype = C.c_void_p
        self.library.clave_sampler_destroy.restype = None
        self.handle = C.c_void_p()
        L.call("clave_sampler_create", C.byref(o), C.byref(self.handle))

    def __del__(self):
        self.library.clave_sampler_destroy(self.handle)

    def sample(self, logits, seen=()):
        """Returns an id. logits: (V,) float32."""
        out, ids = C.c_uint32(), (C.c_uint32 * len(seen))(*seen)
        pointer = logits.ctypes.data_as(C.POINTER(C.c_float))
        n, n_seen = C.c_size_t(len(logits)), C.c_size_t(len(ids))
        L.call("clave_sampler_sample", self.handle, pointer, n, ids, n_seen, C.byref(out))
        return out.value


def philox(key, counter):
    """Philox 4x32-10 of Salmon et al. (2011). counter: four words; returns four."""
    w, k = list(counter), [key & 0xFFFFFFFF, key >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * w[0], 0xCD9E8D57 * w[2]
        w = [(b >> 32) ^ w[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ w[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return w


def uniform(seed, draw):
    """Returns the number in [0, 1) of a draw, counted from 0."""
    w = philox(seed, [draw & 0xFFFFFFFF, draw >> 32, 0, 0])
    return ((w[0] | w[1] << 32) >> 11) * 2.0**-53


def probabilities(logits, o, seen=()):
    """Returns (V,) float64: the distribution that `o` defines, by sorting."""
    x = logits.astype(np.float32).copy()
    for b in o.list:
        x[b.id] += np.float32(b.bias)
    window = list(seen)[-o.penalty_window :] if o.penalty_window else list(seen)
    ids, times = np.unique(np.array(window, dtype=np.int64), return_counts=True)
    if o.repetition_penalty not in (0, 1):
        p = np.float32(o.repetition_penalty)
        x[ids] = np.where(x[ids] > 0, x[ids] / p, x[ids] * p)
    x[ids] -= np.float32(o.presence_penalty)
    x[ids] -= np.float32(o.frequency_penalty) * times.astype(np.float32)
    order = np.argsort(-x, kind="stable")  # the smallest ids first among equal values
    x = x.astype(np.float64)[order]
    p = np.exp((x - x[0]) / np.float64(np.float32(o.temperature)))
    if o.top_k:
        p[o.top_k :] = 0
    if 0 < o.top_p < 1:
        sums = np.cumsum(p) / p.sum()
        p[1 + np.searchsorted(sums, np.float64(np.float32(o.top_p))) :] = 0
    p[p < p[0] * np.float64(np.float32(o.min_p))] = 0
    out = np.zeros_like(p)
    out[order] = p / p.sum()
    return out
