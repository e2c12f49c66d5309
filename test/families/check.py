"""Checks one family: exports it, runs it twice on each device with different inputs, and compares it with torch."""

import collections
import importlib.util
import time

import dynamic
import models
import torch
import zoo  # imported before transformers, which imports torchvision: zoo declares ops that may be missing there

import clave
from clave.errors import UnsupportedOp

# Tolerance relative to the largest value of a tensor: a few layers of sums in another order and, in 16-bit floats, one
# rounding per op of each layer.
TOLERANCE = {torch.float32: 2e-4, torch.bfloat16: 6e-2, torch.float16: 1e-2}


def difference(got, want):
    """Returns the largest difference relative to the largest value; inf if NaN, infinity, shape or dtype differ."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return float("inf")
    if not want.is_floating_point():
        return 0.0 if torch.equal(got, want) else float("inf")
    g, w = got.double(), want.double()
    if not torch.equal(g.isfinite(), w.isfinite()) or not torch.equal(
        g[~g.isfinite()].nan_to_num(), w[~w.isfinite()].nan_to_num()
    ):
        return float("inf")
    keep = w.isfinite()
    if not keep.any():
        return 0.0
    scale = max(w[keep].abs().max().item(), 1e-6)
    return ((g - w)[keep].abs().max() / scale).item()


def compare(session, module, argss):
    """Returns the largest difference over several inputs, True if all are in tolerance, and the last run's ms."""
    worst, good, ms = 0.0, True, 0.0
    for args, kwargs in argss:
        with torch.no_grad():
            want = module(*args, **kwargs)
        start = time.perf_counter()
        got = session(*args, **kwargs)
        ms = 1000 * (time.perf_counter() - start)
        for g, w in zip(got, want, strict=True):
            d = difference(g, w)
            worst, good = max(worst, d), good and d <= TOLERANCE.get(w.dtype, 2e-4)
    return worst, good, ms


def first_line(e):
    return f"{type(e).__name__}: {(str(e).strip().splitlines() or [''])[0]}"


def example(name, mode):
    """Returns (module, the inputs of each run, the first those of the export, keyword arguments of clave.export)."""
    if mode == "fixed":
        module, *first = models.make(name)
        return module, [first, models.make(name, 1)[1:], first], {}
    module, argss, shapes = dynamic.family(name, mode)
    return module, argss, {"dynamic_shapes": shapes}


def family(name, devices, mode="fixed"):
    """Returns {"name", "mode", "status": "right", "wrong", "skipped" ..., "reason", "ops", "passes", "parameters",
    "error" and "ms" by device}.

    mode: one of dynamic.MODES. There is no fallback: an op that a device cannot run is a failure. A family is skipped
    if its library is not installed or does not have that attention.
    """
    result = {"name": name, "mode": mode}
    library = zoo.ROWS[name][0] if name in zoo.ROWS else "transformers"
    if not importlib.util.find_spec(library):
        return result | {"status": "skipped", "reason": f"needs {library}: ci/venv families"}
    try:
        module, argss, options = example(name, mode)
        with torch.no_grad():
            for args, kwargs in argss:
                module(*args, **kwargs)
    except Exception as e:
        status = "skipped" if mode != "fixed" and isinstance(e, ValueError) else "no_model"
        return result | {"status": status, "reason": first_line(e)}
    args, kwargs = argss[0]
    try:
        with torch.no_grad():
            program = clave.export(module, args, kwargs, **options)
    except UnsupportedOp as e:
        return result | {"status": "unsupported", "reason": ", ".join(e.ops), "missing": e.ops}
    except clave.Error as e:
        return result | {"status": "no_export" if e.__cause__ else "refused", "reason": str(e)}
    except Exception as e:
        return result | {
            "status": "no_export",
            "reason": first_line(e),
        }
    result["ops"] = dict(
        collections.Counter(type(i.op).__name__ for c in program.schema.chains for i in c.instructions)
    )
    result["passes"] = dict(getattr(program, "passes", {}) or {})
    result["n_ops"] = sum(result["ops"].values())
    result["parameters"] = sum(p.numel() for p in module.parameters())
    result["error"], result["ms"] = {}, {}
    for device in devices:
        try:
            session = clave.Session(program, device, fallback=False)
            worst, good, ms = compare(session, module, argss)
        except Exception as e:
            return result | {"status": "failed", "reason": f"{device}: {str(e).splitlines()[0]}"}
        result["error"][device] = float(f"{worst:.2g}")
        result["ms"][device] = float(f"{ms:.2g}")
        if not good:
            return result | {"status": "wrong", "reason": f"{device}: off by {worst:.2g} of the largest value"}
    return result | {"status": "right"}
