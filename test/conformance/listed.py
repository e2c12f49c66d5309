"""Calls each op of aten.txt and calls.txt, and the ops with which torch.export computes sizes."""

import pathlib

import aten
import torch

# Ops whose defined results are only shape and dtype.
UNDEFINED = {f"aten.{name}" for name in ("empty.memory_format", "empty_permuted.default", "empty_like.default")} | {
    "aten.new_empty.default"
}
RANDOM = {f"aten.{name}" for name in ("bernoulli.Tensor", "bernoulli.p", "bernoulli_.float", "normal.float_Tensor")} | {
    "aten.rand_like.default"
}
# Ops that clave computes without the results that inference does not use.
FIRST = {f"aten.{name}.default" for name in ("_embedding_bag", "native_dropout")} | {
    "aten._scaled_dot_product_flash_attention_for_cpu.default"
}
MORE = pathlib.Path(__file__).with_name("calls.txt")
FEATURES = 6


def tensors(seed):
    """Returns {name: tensor}. x, y, b, c, i and j are (4, 6); i and j hold 0 to 3, `permutation` 0 to 5 in each row."""
    g = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(shape, generator=g)

    def integers(high, *shape):
        return torch.randint(high, shape, generator=g)

    def gates(n):
        return [normal(n * FEATURES, FEATURES), normal(n * FEATURES, FEATURES), *(normal(2, n * FEATURES))]

    x = normal(4, FEATURES)
    return {
        "x": x,
        "y": normal(4, FEATURES),
        "v": normal(FEATURES),
        "positive": normal(4, FEATURES).abs() + 0.1,
        "sorted": normal(5).sort().values,
        "scalar": integers(9),
        "b": normal(4, FEATURES) > 0,
        "c": normal(4, FEATURES) > 0,
        "i": integers(4, 4, FEATURES),
        "j": integers(4, 4, FEATURES),
        "ids": integers(4, FEATURES),
        "order": torch.randperm(4, generator=g),
        "permutation": x.argsort(1),
        "square": normal(FEATURES, FEATURES),
        "batch": normal(2, 4, FEATURES),
        "batch_t": normal(2, FEATURES, 5),
        "pair": normal(4, 3, 2),
        "heads": normal(1, 2, 5, 8),
        "sound": normal(2, 4, 16),
        "image": normal(2, 4, 8, 8),
        "volume": normal(2, 4, 4, 6, 6),
        "grid": normal(2, 3, 5, 2).tanh(),
        "columns": normal(1, 12, 12),
        "per_channel": normal(4),
        "positive_channels": normal(4, 1, 1).abs() + 0.1,
        "kernel1": normal(4, 4, 3),
        "kernel2": normal(4, 4, 3, 3),
        "kernel3": normal(4, 4, 3, 3, 3),
        "state": normal(1, 2, FEATURES),
        "lstm": gates(4),
        "gru": gates(3),
        "rnn": gates(1),
    }


def calls(path=aten.LISTED):
    """Returns {op: its arguments as text} of the ops that are run."""
    lines = (line.split("\t") for line in path.read_text().splitlines() if not line.startswith("#"))
    return {line[0]: line[1] for line in lines if len(line) > 1 and not aten.exporter(line[0]).startswith("no: ")}


def samples(random):
    """Yields the calls of both tables in the format of extra.py; random: those whose values are random or undefined."""
    names = tensors(0) | {"torch": torch, "call": lambda *args, **kwargs: (args, kwargs)}
    for name, arguments in sorted((calls() | calls(MORE)).items()):
        if (name in UNDEFINED | RANDOM) == random:
            args, kwargs = eval(f"call({arguments})", names)
            yield run, (name, *args), kwargs


def run(name, *args, **kwargs):
    results = caller(name)(*args, **kwargs)
    return plain(results[0] if name in FIRST else results)


def plain(result):
    """Returns an op's result as a list of tensors that a program can return."""
    if result is None:
        return []
    if isinstance(result, list | tuple):
        return [t for r in result for t in plain(r)]
    if not isinstance(result, torch.Tensor):
        return [torch.scalar_tensor(result)]
    return [torch.view_as_real(result) if result.is_complex() else result]


class Calls(torch.nn.Module):
    """Makes every call of a table on named tensors; returns a list of tensors for each op, named with underscores."""

    def __init__(self, table):
        super().__init__()
        self.table = {name: compile(f"call({arguments})", name, "eval") for name, arguments in table.items()}

    def forward(self, **inputs):
        names = inputs | {"torch": torch}
        return {
            name.replace(".", "_"): plain(eval(c, names | {"call": caller(name)})) for name, c in self.table.items()
        }


def caller(name):
    """Returns the op; an op that changes its first operand works on a copy."""
    op = aten.overload(name)
    if not op._schema.is_mutable:
        return op
    return lambda first, *rest: op(first.clone(), *rest)


class Sizes(torch.nn.Module):
    """All results computed from sizes of x, with any number of rows n, and from a number u that only `scalar` holds."""

    def forward(self, x, scalar):
        n = torch.ops.aten.sym_size.int(x, 0)
        u = scalar.item()
        torch._check(u >= 0)
        torch._check(u <= 100)
        sizes = [n + 1, n * 3, n - 1, n // 2, torch.sym_max(n, 5), torch.sym_min(n, 5)]
        sizes += [torch.sym_ite(torch.sym_not(u == 3), n, n + 2), torch.ops.aten.sym_storage_offset(x[1:, 2:])]
        return [x.new_zeros((s,)) for s in sizes], torch.arange(u)
