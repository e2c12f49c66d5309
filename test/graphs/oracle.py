"""The oracle: torch's result, the same computation in f64, and how far rounding can move each element.

The error bound is propagated, not chosen: the graph runs in f64 once without errors and N_NOISY times with rounding
errors at each statement, of random sign and size up to
  once     u of the result's dtype + ULPS u of the computing type (f32 for 16 bits), on the result
  sum      u of the computing type * sqrt(elements), on each operand, and as above on the result; where terms may
           overflow, infinite where the result is finite, else 0
  adds     as sum, but computed in the result's dtype: sums of scatter at one place
  centred  as sum, and u of the computing type on the mean that a norm subtracts: for two close elements this is
           nearly all of the result's error
where u is half an ulp (eps / 2). The deviation of those runs from the exact one (root mean square, per element) is the
standard deviation of a right implementation. The bound is SPREAD deviations plus one ulp for the last rounding, or
twice torch's own error, at most four times the former. SPREAD is 6: the rounding errors of a right implementation are
at most those of the noise, which is uniform in [-1, 1] with deviation 1 / sqrt(3), and an estimate from 8 runs is less
than half the true one with a probability of 1e-3. 6 covers both with a factor of 1.7. torch's own results must be
within the bound, else the graph is not used; run.py counts those graphs, and graphs that would accept 2 % more.
"""

import contextlib
import dataclasses
import math
from typing import Any

import torch
from graph import F64, Graph, Input, fill, numbers, oracle_names

N_NOISY = 8
SPREAD = 6.0
ULPS = 4
LARGE = 1e16  # limit of an operand: terms below it do not overflow in f32


class Unfit(Exception):
    """The graph cannot be judged: torch refuses it, or its result jumps where rounding errors may reach."""


@dataclasses.dataclass
class Answer:
    """One output: torch's result, the exact result and the allowed distance from it (both f64, None unless it has
    floats); unstable: elements that the noise makes finite or not."""

    want: torch.Tensor
    exact: Any = None
    bound: Any = None
    unstable: Any = None


def unit(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Returns one ulp of each element of x (f64) in dtype; below the smallest normal number, its ulp."""
    info = torch.finfo(dtype)
    size = torch.where(x.isfinite(), x.abs(), 1.0).clamp_min(info.tiny)
    return torch.exp2(torch.floor(torch.log2(size))) * info.eps


@contextlib.contextmanager
def _default_f64():
    torch.set_default_dtype(F64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


def values_of(inputs: list[Input], sizes: dict, seed: int) -> dict[str, Any]:
    """Returns tensors, and Python numbers for scalar inputs."""
    made = {i.name: fill(i, numbers(i.shape, sizes), seed) for i in inputs}
    return {i.name: int(made[i.name]) if i.dtype == "INT" else made[i.name] for i in inputs}


def run_plain(graph: Graph, values: dict[str, torch.Tensor]) -> tuple[dict[str, Any], list[Any]]:
    """Runs torch eager; returns all final values and the dtype of each statement's target. Unfit if torch refuses."""
    env = oracle_names() | {n: v if isinstance(v, int) else v.clone() for n, v in values.items()}
    dtypes = []
    for s in graph.statements:
        try:
            exec(s.code, env)
        except Exception as e:
            raise Unfit(f"{s.code}: {type(e).__name__}: {e}") from None
        dtypes.append(env[s.target].dtype)
    return env, dtypes


def _noise(x: torch.Tensor, size: float, generator: torch.Generator) -> torch.Tensor:
    return 1 + size * (2 * torch.rand(x.shape, generator=generator, dtype=F64) - 1)


def _half_ulp(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).eps / 2


class _Centred:
    """torch.nn.functional with a layer_norm that rounds the mean: it puts noise of size u on it."""

    def __init__(self, u: float, generator: torch.Generator):
        self.u = u
        self.generator = generator

    def layer_norm(self, x: torch.Tensor, shape: tuple, weight: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
        axes = tuple(range(-len(shape), 0))
        mean = x.mean(axes, keepdim=True)
        centred = x - mean * _noise(mean, self.u, self.generator)
        return centred * (centred.square().mean(axes, keepdim=True) + eps).rsqrt() * weight


SUMS = ("sum", "adds", "centred")


class Widened:
    """A run in f64; with a generator, it adds rounding errors."""

    def __init__(self, values: dict[str, torch.Tensor], generator: Any):
        wide = {
            n: v.to(F64, copy=True) if is_float(v) else v if isinstance(v, int) else v.clone()
            for n, v in values.items()
        }
        self.env = oracle_names(widen=True) | wide
        self.generator = generator

    def step(self, s: Any, dtype: torch.dtype) -> None:
        env = self.env
        acc = _half_ulp(F64 if dtype is F64 else torch.float32)
        if s.rounds in SUMS and self.generator is not None:
            step = _half_ulp(dtype) if s.rounds == "adds" and dtype.is_floating_point else acc
            others = [n for n in s.reads if n != s.target]
            if s.makes or (s.rounds != "adds" and others):
                env = env | {n: self._disturbed(env[n], step) for n in others}
            else:
                env[s.target].copy_(self._disturbed(env[s.target], step))
        if s.rounds == "centred" and self.generator is not None:
            env = env | {"F": _Centred(acc, self.generator)}
        exec(s.code, env)
        x = self.env[s.target] = env[s.target]
        if not x.is_floating_point() or s.rounds == "no":
            return
        tensors = [env[n] for n in s.reads if not isinstance(env[n], int)]
        if s.makes and any(x.untyped_storage().data_ptr() == t.untyped_storage().data_ptr() for t in tensors):
            x = self.env[s.target] = x.clone()  # a cast that does nothing in f64
        if self.generator is not None:
            is_large = any(bool((t.to(F64).abs() > LARGE).any()) for t in tensors)
            if s.makes and s.rounds in ("sum", "centred") and is_large:
                other = torch.where(x.abs() <= torch.finfo(dtype).max, math.inf, 0.0)
                x.copy_(torch.where(self._overflows(s, env, dtype), other, x))
            size = (0 if dtype is F64 else _half_ulp(dtype)) + ULPS * acc
            x.mul_(_noise(x, size, self.generator))
        if dtype is not F64:
            most = torch.finfo(dtype).max
            x.copy_(torch.where(x.abs() > most * (1 + _half_ulp(dtype)), x.sign() * math.inf, x))

    def _overflows(self, s: Any, env: dict, dtype: torch.dtype) -> torch.Tensor:
        """True where terms of a sum are finite here but may be infinite in the computing type. The result may then be
        infinite, by the order of the sum, and with an infinite operand infinite or NaN."""
        sizes = {n: torch.where(env[n].isfinite(), env[n].abs(), 0) if is_float(env[n]) else env[n] for n in s.reads}
        env = env | sizes
        exec(s.code, env)
        most = torch.finfo(F64 if dtype is F64 else torch.float32).max
        return env[s.target].abs() > most  # type: ignore[no-any-return]

    def _disturbed(self, x: Any, acc: float) -> Any:
        if not is_float(x):
            return x
        return x * _noise(x, acc * max(1.0, x.numel()) ** 0.5, self.generator)


def is_float(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.is_floating_point()


def same(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a == b) | (a.isnan() & b.isnan()) if a.is_floating_point() else a == b


def _run_widened(graph: Graph, values: list[dict[str, torch.Tensor]], dtypes: list[Any]) -> list[Widened]:
    """Runs the exact and the noisy runs by statements. Raises Unfit if rounding errors may reach a jump."""
    runs = [Widened(v, torch.Generator().manual_seed(graph.seed + k) if k else None) for k, v in enumerate(values)]
    with _default_f64():
        for s, dtype in zip(graph.statements, dtypes, strict=True):
            for n in (n for n in s.exact if n in runs[0].env):  # inputs that nothing reads are missing in env
                if any(not bool(same(r.env[n], runs[0].env[n]).all()) for r in runs[1:3]):
                    raise Unfit(f"{s.code} jumps at rounding errors of {n}")
            try:
                for r in runs:
                    r.step(s, dtype)
            except Exception as e:
                raise Unfit(f"{s.code} in f64: {type(e).__name__}: {e}") from None
    return runs


class Oracle:
    """Computes answers for runs in sequence: each run continues with the state of the one before."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self.reset()

    def reset(self) -> None:
        self.initial = values_of(self.graph.state, {}, self.graph.seed)
        self.plain = dict(self.initial)
        self.wide = [dict(self.initial) for _ in range(1 + N_NOISY)]

    def run(self, arguments: dict[str, torch.Tensor]) -> list[Answer]:
        env, dtypes = run_plain(self.graph, self.plain | arguments)
        if not all(isinstance(env[o], torch.Tensor) for o in self.graph.outputs):
            raise Unfit("an output is a number")
        has_floats = any(env[o].is_floating_point() for o in self.graph.outputs)
        n = 1 + N_NOISY if has_floats or self.graph.state else 3
        runs = _run_widened(self.graph, [w | arguments for w in self.wide[:n]], dtypes)
        state = [s.name for s in self.graph.state]
        self.plain = {n: env[n].clone() for n in state}
        self.wide = [{n: r.env[n].clone() for n in state} for r in runs]
        return [_answer(env[o], [r.env[o] for r in runs]) for o in self.graph.outputs]


def _answer(want: torch.Tensor, wide: list[torch.Tensor]) -> Answer:
    if not want.is_floating_point():
        return Answer(want)
    exact = wide[0]
    noisy = torch.stack(wide[1:])
    unstable = (noisy.isfinite() != exact.isfinite()).any(0)
    overflow = exact.isfinite() & ~want.isfinite()  # inside a step, for example of squares
    deviation = (noisy - exact).nan_to_num(0, 0, 0)
    most = deviation.abs().amax(0).clamp_min(torch.finfo(F64).tiny)  # squares of the smallest numbers are 0
    rms = most * ((deviation / most) ** 2).mean(0).sqrt()
    typical = float(rms.median()) if rms.numel() else 0.0
    theirs = (want.double() - exact).abs().nan_to_num(0, 0, 0)
    ours = SPREAD * torch.maximum(rms, torch.full_like(rms, typical / 8)) + unit(exact, want.dtype)
    return Answer(want, exact, torch.maximum(ours, torch.minimum(2 * theirs, 4 * ours)), unstable | overflow)


def judge(a: Answer, got: torch.Tensor) -> str:
    """Describes an error of a result, or returns ""."""
    if got.dtype != a.want.dtype:
        return f"is {got.dtype}, torch's {a.want.dtype}"
    if got.shape != a.want.shape:
        return f"is {list(got.shape)}, torch's {list(a.want.shape)}"
    right = same(got, a.want)
    if a.exact is not None:
        right |= ((got.double() - a.exact).abs() <= a.bound) | a.unstable
    if bool(right.all()):
        return ""
    at = tuple(int(i) for i in (~right).nonzero()[0])
    more = f" (exact {a.exact[at].item():.9g} +- {a.bound[at].item():.3g})" if a.exact is not None else ""
    n = int((~right).sum())
    return f"{list(at)} is {got[at].item()!r}, torch's {a.want[at].item()!r}{more}; {n} of {right.numel()} differ"


def is_sharp(a: Answer) -> bool:
    """True if a result that is 2 % larger would be noticed in half of the elements."""
    if a.exact is None:
        return True
    x = a.exact
    counted = x.isfinite() & (x != 0) & ~a.unstable
    return not bool(counted.any()) or float((a.bound < 0.02 * x.abs())[counted].double().mean()) >= 0.5


def is_modelled(a: Answer) -> bool:
    """True if torch itself is within the bound."""
    if a.exact is None:
        return True
    want = a.want.double()
    return bool((((want - a.exact).abs() <= a.bound) | same(want, a.exact) | a.unstable).all())
