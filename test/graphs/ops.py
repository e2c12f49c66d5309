"""The operators of graphs: functions that propose a statement for a Builder, or None if none fits.

A proposal need not be valid: the Builder tries it in torch and drops it if torch refuses it. New operators go into a
table: "@" and "%" stand for operands.
"""

from typing import Any

from graph import DTYPES, FLOATS, NAMES, Statement

INTS = ("I8", "U8", "I16", "I32", "I64")


def is_float(t: Any) -> bool:
    return t.is_floating_point()


def is_int(t: Any) -> bool:
    return NAMES[t.dtype] in INTS


def is_number(t: Any) -> bool:
    return NAMES[t.dtype] != "BOOL"


def made(b: Any, code: str, rounds: str = "once", exact: tuple = ()) -> Statement:
    return Statement(f"{b.new_name()} = {code}", b.new_name(), rounds, exact)


def ranked(least: int, most: int = 9, kind: Any = lambda t: True) -> Any:
    return lambda t: least <= t.dim() <= most and kind(t)


def axis(b: Any, x: str) -> int:
    return b.rng.randrange(b.value(x).dim())


# ---- views: "@" is the operand, {d} an axis, {e} another, {k} a small number

VIEWS = (
    "@.transpose({d}, {e})",
    "@.transpose({d}, {e})",
    "@.movedim({d}, {e})",
    "@.mT",
    "@.flip({d})",
    "@.unsqueeze({d})",
    "@.unsqueeze(-1)",
    "@.squeeze({d})",
    "@.squeeze()",
    "@.reshape(-1)",
    "@.flatten({d})",
    "@.transpose({d}, {e}).reshape(-1)",
    "@.transpose({d}, {e}).flatten(0, 1)",
    "@.unsqueeze({d}).expand(*[-1] * {d}, {k}, *[-1] * (@.dim() - {d}))",
    "@.select({d}, -1)",
    "@.select({d}, 0)",
    "@.narrow({d}, 1, {k})",
    "@.split({k}, {d})[-1]",
    "@.chunk({k}, {d})[0]",
    "@.diagonal(0, {d}, {e})",
    "@.unfold({d}, 2, {k})",
    "@.roll({k}, {d})",
)
SLICES = ("1:", ":-1", "::2", "1::2", "::3", "-2:", ":4", "1:3", ":0", "::2")


def view(b: Any) -> Any:
    x = b.pick(ranked(1))
    if x is None:
        return None
    fill = {"d": axis(b, x), "e": axis(b, x), "k": b.rng.choice((1, 2, 2, 3))}
    return made(b, b.rng.choice(VIEWS).format(**fill).replace("@", x), "no")


def indexing(b: Any, x: str) -> str:
    """Returns x with a slice along one axis, or two."""
    n = b.value(x).dim()
    parts = [":"] * n
    for _ in range(b.rng.choice((1, 1, 2))):
        parts[b.rng.randrange(n)] = b.rng.choice(SLICES)
    return f"{x}[{', '.join(parts)}]"


def slicing(b: Any) -> Any:
    x = b.pick(ranked(1))
    return x and made(b, indexing(b, x), "no")


def sized(b: Any) -> Any:
    """Proposes an op with a number that is a separate input."""
    x = b.pick(ranked(1))
    n = x and b.scalar()
    if not n:
        return None
    d = axis(b, x)
    codes = ("{x}.narrow({d}, 0, {n})", "{x}[{n}:]", "{x}[:{n}]", "{x} + {n}", "{x} * {n}", "{x}.roll({n}, {d})")
    code = b.rng.choice(codes)
    floats = is_float(b.value(x)) and ("+" in code or "*" in code)
    return made(b, code.format(x=x, d=d, n=n), "once" if floats else "no")


# ---- elementwise

EXACT_UNARY = ("-@", "@.abs()", "torch.relu(@)", "@.clamp(-1, 1)", "@.clone()", "@.contiguous().clone()")
# Only one step may round near a zero of the result, because the noise is relative to the result.
FLOAT_UNARY = (
    "@ * 0.5 + 1",
    "@ - 0.25",
    "@.clamp(-8, 8).exp()",
    "@.clamp(-30, 30).sin()",
    "@.clamp(-30, 30).cos()",
    "@.tanh()",
    "@.sigmoid()",
    "F.gelu(@.clamp(-1, 8))",
    "F.silu(@)",
    "F.softplus(@)",
    "F.leaky_relu(@, 0.1)",
    "F.elu(@)",
    "@.abs().sqrt()",
    "(@.abs() + 1).rsqrt()",
    "@.abs().log1p()",
    "(@.abs() + 2).log()",
    "@.erf()",
    "@.square()",
    "(@.abs() + 0.5).reciprocal()",
    "1 / (@.abs() + 1)",
    "2 - @",
    "@ / 3",
    "@.abs().pow(1.5)",
    "@.atan()",
)
STEPPED = (
    "@.floor()",
    "@.ceil()",
    "@.round()",
    "@.trunc()",
    "@.sign()",
    "@ > 0",
    "@.isnan()",
    "@.isfinite()",
    "@ == 0",
)
INT_UNARY = (
    "-@",
    "@.abs()",
    "@ + 3",
    "@ * 2",
    "@ // 3",
    "@ % 5",
    "~@",
    "@ > 1",
    "@.clamp(-3, 3)",
    "@ >> 1",
    "@.sign()",
)
BOOL_UNARY = ("~@", "@.int()", "@.float()", "@.logical_not()", "@ ^ True")
BINARY = (
    "@ + %",
    "@ - %",
    "@ * %",
    "@ + %",
    "@ * %",
    "@ / (%.abs() + 1)",
    "torch.lerp(@, %, 0.25)",
    "torch.add(@, %, alpha=2)",
)
EXACT_BINARY = ("torch.maximum(@, %)", "torch.minimum(@, %)")
STEPPED_BINARY = (
    "@ > %",
    "@ <= %",
    "@ == %",
    "@ != %",
    "torch.fmod(@, %.abs().clamp(min=1))",
)
INT_BINARY = ("@ + %", "@ - %", "@ * %", "torch.maximum(@, %)", "@ & %", "@ | %", "@ ^ %", "@ < %", "@ == %")
BOOL_BINARY = ("@ & %", "@ | %", "@ ^ %", "@ == %", "torch.logical_xor(@, %)")


def unary(b: Any) -> Any:
    x = b.pick()
    t = b.value(x)
    if is_float(t):
        kind = b.rng.random()
        if kind < 0.2:
            return made(b, b.rng.choice(EXACT_UNARY).replace("@", x), "no")
        if kind < 0.3:
            return made(b, b.rng.choice(STEPPED).replace("@", x), "no", (x,))
        return made(b, b.rng.choice(FLOAT_UNARY).replace("@", x))
    return made(b, b.rng.choice(INT_UNARY if is_int(t) else BOOL_UNARY).replace("@", x), "no")


def partner(b: Any, x: str) -> str | None:
    """Returns a second operand: of the same shape, one that broadcasts, or any."""
    if b.rng.random() < 0.6:
        return b.like(x)
    if b.rng.random() < 0.3:
        shape = b.shape_of(x)
        cut = b.rng.randrange(len(shape) + 1)
        shape = tuple(1 if b.rng.random() < 0.2 else n for n in shape[cut:])
        return None if None in shape else b.add_input(NAMES[b.value(x).dtype], shape)
    return b.pick()


def binary(b: Any) -> Any:
    x = b.pick()
    y = partner(b, x)
    if y is None:
        return None
    t = b.value(x)
    fill = lambda codes: b.rng.choice(codes).replace("@", x).replace("%", y)
    if not is_float(t) and not is_float(b.value(y)):
        return made(b, fill(INT_BINARY if is_int(t) else BOOL_BINARY), "no")
    kind = b.rng.random()
    if kind < 0.15:
        return made(b, fill(EXACT_BINARY), "no")
    if kind < 0.25:
        return made(b, fill(STEPPED_BINARY), "no", (x, y))
    code = fill(BINARY)
    return made(b, code, "sum" if "lerp" in code or "alpha" in code else "once")


def where(b: Any) -> Any:
    c = b.pick(lambda t: NAMES[t.dtype] == "BOOL")
    x = b.pick(is_number)
    y = partner(b, x) if x and b.rng.random() < 0.7 else "0"
    if c is None or x is None or y is None:
        return None
    return made(b, b.rng.choice((f"torch.where({c}, {x}, {y})", f"{x}.masked_fill({c}, 1)")), "no")


def cast(b: Any) -> Any:
    x = b.pick()
    t = b.value(x)
    to = b.rng.choice([d for d in DTYPES if DTYPES[d] is not t.dtype])
    if not is_float(t) or to in FLOATS:
        return made(b, f"{x}.to({to})")
    return made(b, f"{x}.nan_to_num(0, 9, 0).clamp(0, 100).to({to})" if to != "BOOL" else f"{x}.to(BOOL)", "no", (x,))


# ---- reductions, sums

SUMS = ("sum", "sum", "mean", "var", "std", "logsumexp", "prod")
ARG = ("argmax", "argmin")


def axes(b: Any, x: str) -> str:
    n = b.value(x).dim()
    chosen = sorted(b.rng.sample(range(n), b.rng.choice((1, 1, min(2, n)))))
    return str(chosen[0]) if len(chosen) == 1 else str(tuple(chosen))


def reduce(b: Any) -> Any:
    x = b.pick(ranked(1))
    if x is None:
        return None
    t, keep = b.value(x), b.rng.choice(("", ", keepdim=True"))
    kind = b.rng.random()
    if kind < 0.25:
        return made(b, f"{x}.{b.rng.choice(('amax', 'amin'))}({axes(b, x)}{keep})", "no")
    if kind < 0.32:
        return made(b, f"{x}.{b.rng.choice(('any', 'all'))}({axis(b, x)}{keep})", "no", (x,))
    if kind < 0.4 and is_number(t):
        return argument(b, x)
    if not is_float(t):
        return made(b, f"{x}.{b.rng.choice(('sum', 'sum', 'prod'))}({axis(b, x)}{keep})", "no")
    name = b.rng.choice(SUMS)
    if name == "prod":
        return made(b, f"{x}.clamp(0.5, 1.5).prod({axis(b, x)}{keep})", "sum")
    if b.rng.random() < 0.1:
        return made(b, f"{x}.{name if name != 'logsumexp' else 'sum'}()", "sum")
    return made(b, f"{x}.{name}({axes(b, x)}{keep})", "sum")


def argument(b: Any, x: str) -> Any:
    """torch may return the index of any of equal elements, so elements must be distinct."""
    d = axis(b, x)
    if not all(env[x].sort(d)[0].diff(dim=d).ne(0).all() and not env[x].isnan().any() for env in b.envs):
        return None
    return made(b, f"{x}.{b.rng.choice((*ARG, 'argsort'))}({d})", "no", (x,))


def cumulate(b: Any) -> Any:
    x = b.pick(ranked(1, kind=is_number))
    if x is None:
        return None
    d, floats = axis(b, x), is_float(b.value(x))
    if b.rng.random() < 0.7:
        return made(b, f"{x}.cumsum({d})", "sum" if floats else "no")
    return made(b, b.rng.choice((f"{x}.cummax({d})[0]", f"{x}.cummin({d})[0]")), "no")


def softmax(b: Any) -> Any:
    x = b.pick(ranked(1, kind=is_float))
    return x and made(
        b, f"{b.rng.choice(('torch.softmax', 'torch.softmax', 'torch.log_softmax'))}({x}, {axis(b, x)})", "sum"
    )


def norm(b: Any) -> Any:
    x = b.pick(ranked(1, kind=is_float))
    if x is None:
        return None
    n = b.shape_of(x)[-1]
    kind = b.rng.randrange(4)
    if kind == 0:
        return made(b, f"F.normalize({x}, dim={axis(b, x)})", "sum")
    if not isinstance(n, int):
        return made(b, f"{x} * ({x}.square().mean(-1, keepdim=True) + 1e-5).rsqrt()", "sum")
    if kind == 1:
        return made(b, f"F.rms_norm({x}, ({n},), eps=1e-5)", "sum")
    w = b.add_input(NAMES[b.value(x).dtype], (n,), "positive")
    return w and made(b, f"F.layer_norm({x}, ({n},), {w})", "centred")


# ---- products


def matmul(b: Any) -> Any:
    x = b.pick(ranked(2, 4, is_float))
    if x is None:
        return None
    d = NAMES[b.value(x).dtype]
    shape = b.shape_of(x)
    kind = b.rng.randrange(5)
    if kind == 0:
        return made(b, f"{x} @ {x}.mT", "sum")
    if None in shape[-2:]:
        return None
    if kind == 1 and isinstance(shape[-1], int):
        w = b.add_input(d, (b.dim(140), shape[-1]), "normal")
        return w and made(b, f"F.linear({x}, {w})", "sum")
    if kind == 2:
        y = b.add_input(d, (b.dim(70), shape[-2]), "normal")
        return y and made(b, f"{y} @ {x}", "sum")
    if kind == 3 and len(shape) == 2:
        y, c = b.add_input(d, (shape[1], b.dim(70)), "normal"), b.add_input(d, (1,), "normal")
        return y and c and made(b, f"torch.addmm({c}, {x}, {y})", "sum")
    batch = shape[:-2] if None not in shape and b.rng.random() < 0.5 else ()
    y = b.add_input(d, (*batch, shape[-1], b.dim(70)), "normal")
    return y and made(b, f"{x} @ {y}", "sum")


def conv(b: Any) -> Any:
    x = b.pick(ranked(3, 4, is_float))
    if x is None or not isinstance(b.shape_of(x)[1], int) or b.shape_of(x)[1] > 40:
        return None
    t, n = b.value(x), b.shape_of(x)[1]
    if not n:
        return None
    spatial, k = t.dim() - 2, b.rng.choice((1, 2, 3))
    w = b.add_input(NAMES[t.dtype], (b.rng.choice((1, 3, 8, 9, 17)), n, *(k,) * spatial), "normal")
    more = b.rng.choice(("", ", padding=1", ", stride=2", ", padding=2, stride=2"))
    return w and made(b, f"F.conv{spatial}d({x}, {w}{more})", "sum")


def pool(b: Any) -> Any:
    x = b.pick(ranked(3, 4, is_float))
    if x is None:
        return None
    spatial, k = b.value(x).dim() - 2, b.rng.choice((2, 3))
    if b.rng.random() < 0.5:
        return made(b, f"F.max_pool{spatial}d({x}, {k})", "no")
    return made(b, f"F.avg_pool{spatial}d({x}, {k}, stride={b.rng.choice((1, 2))})", "sum")


def attention(b: Any) -> Any:
    q = b.pick(ranked(3, 4, is_float))
    shape = q and b.shape_of(q)
    if not shape or not isinstance(shape[-1], int) or not shape[-1] or None in shape:
        return None
    d, keys = NAMES[b.value(q).dtype], b.rng.choice((shape[-2], b.dim(300)))
    k, v = (b.add_input(d, (*shape[:-2], keys, shape[-1]), "normal") for _ in range(2))
    causal = ", is_causal=True" if keys == shape[-2] and b.rng.random() < 0.5 else ""
    return k and v and made(b, f"F.scaled_dot_product_attention({q}, {k}, {v}{causal})", "sum")


# ---- statements that passes remove; forms.py has statements that they fuse

ROUNDABOUT = (
    ("(@ * 3).abs() + (@ * 3).abs()", "once"),
    ("@ * (torch.arange(3).sum() * 0.5)", "once"),
    ("@.to(F64).to(@.dtype)", "no"),
    ("@.reshape(-1).reshape(@.shape)", "no"),
    ("@.transpose(0, -1).clone().transpose(0, -1)", "no"),
    ("@.unsqueeze(0).expand(2, *[-1] * @.dim()).select(0, 1)", "no"),
)


def roundabout(b: Any) -> Any:
    x = b.pick(ranked(1, 4, is_float))
    code, rounds = b.rng.choice(ROUNDABOUT)
    if x is None or (rounds == "once" and NAMES[b.value(x).dtype] in ("F16", "BF16")):  # a statement rounds once
        return None
    return made(b, code.replace("@", x), rounds)


# ---- joining, moving


def join(b: Any) -> Any:
    x = b.pick(ranked(1))
    y = x and (b.like(x) if b.rng.random() < 0.7 else b.pick(ranked(1)))
    if not y:
        return None
    d = axis(b, x)
    ways = (f"torch.cat([{x}, {y}], {d})", f"torch.cat([{x}, {x}[:0], {y}])", f"torch.stack([{x}, {y}], {d})")
    return made(b, b.rng.choice(ways), "no")


def move(b: Any) -> Any:
    x = b.pick(ranked(1))
    if x is None:
        return None
    d, n = axis(b, x), b.value(x).dim()
    codes = [f"F.pad({x}, (1, 2))", f"F.pad({x}, (-1, 1), value=3)", f"{x}.repeat({', '.join(['2'] * n)})"]
    codes += [f"{x}.repeat_interleave(2, {d})"]
    if n >= 2:
        codes += [f"{x}.tril()", f"{x}.triu(1)", f"F.pad({x}, (0, 1, 2, 0))"]
    return made(b, b.rng.choice(codes), "no")


def order(b: Any) -> Any:
    x = b.pick(ranked(1, kind=is_number))
    if x is None:
        return None
    d, down = axis(b, x), b.rng.choice(("", ", descending=True"))
    return made(b, b.rng.choice((f"{x}.sort({d}{down})[0]", f"{x}.topk({b.rng.choice((1, 2, 3))}, {d})[0]")), "no")


def places(b: Any, shape: tuple) -> str | None:
    return b.add_input(b.rng.choice(("I64", "I64", "I32")), shape, b.rng.choice(("normal", "wide", "distinct")))


def gather(b: Any) -> Any:
    x = b.pick(ranked(1))
    if x is None:
        return None
    d, shape = axis(b, x), b.shape_of(x)
    i = places(b, (b.dim(70),))
    within = f"{i} % {x}.shape[{d}]"
    codes = [f"{x}.index_select({d}, {within})"]
    if d == 0:
        codes += [f"{x}[{within}]", f"F.embedding({within}, {x})"]
    if d == 1:
        codes += [f"{x}[:, {within}]"]
    if None not in shape and b.rng.random() < 0.5:
        j = b.add_input("I64", shape, "normal")
        codes = [f"{x}.gather({d}, {j} % {x}.shape[{d}])"]
    return i and made(b, b.rng.choice(codes), "no")


def scatter(b: Any) -> Any:
    """Proposes sums into shared places; plain stores only if all values for one place are equal."""
    x = b.pick(ranked(1, kind=is_number))
    y = x and b.like(x)
    shape = x and b.shape_of(x)
    if not y or None in shape:
        return None
    d = axis(b, x)
    i, j = b.add_input("I64", shape, "normal"), b.add_input("I64", (shape[d],), "normal")
    if not i or not j:
        return None
    codes = [f"{x}.scatter_add({d}, {i} % {x}.shape[{d}], {y})", f"{x}.index_add({d}, {j} % {x}.shape[{d}], {y})"]
    codes += [f"{x}.scatter({d}, {i} % {x}.shape[{d}], 2)", f"{x}.index_fill({d}, {j} % {x}.shape[{d}], 1)"]
    codes += [f"{x}.scatter_reduce({d}, {i} % {x}.shape[{d}], {y}, 'amax')"]
    return made(b, b.rng.choice(codes), "adds" if is_float(b.value(x)) else "no")


# ---- in place

ALIASED = (
    "@[1:].copy_(old(@[:-1]))",
    "@[:-1].copy_(old(@[1:]))",
    "@.copy_(old(@.flip(0)))",
    "@.copy_(old(@.mT))",
    "@.add_(old(@.mT))",
    "@.mul_(old(@.flip(0)))",
    "@[::2].add_(old(@[::2].flip(0)))",
    "@[:, 1:].add_(old(@[:, :-1]))",
    "@.sub_(old(@[:1]))",
    "@.add_(old(@[-1]))",
)
IN_PLACE = (
    "@.add_(1)",
    "@.mul_(2)",
    "@.zero_()",
    "@.fill_(3)",
    "@.clamp_(-1, 1)",
    "@.neg_()",
    "@[0].fill_(2)",
    "@[-1].zero_()",
)
IN_PLACE_WITH = (
    "@.add_(%)",
    "@.mul_(%)",
    "@.copy_(%)",
    "@.sub_(%)",
    "@.add_(%.sum())",
    "@[0].copy_(%[-1])",
    "@[:2].copy_(%[:2])",
    "@[::2].add_(%[::2])",
)


def in_place(b: Any) -> Any:
    x = b.pick_own(ranked(1, kind=is_number))
    if x is None or b.rng.random() < 0.15:
        x = b.pick(ranked(1))
        return x and made(b, f"{x}.clone()", "no")
    kind = b.rng.random()
    if kind < 0.15:
        return Statement(b.rng.choice(IN_PLACE).replace("@", x), x)
    if kind < 0.45:
        return Statement(b.rng.choice(ALIASED).replace("@", x), x)
    if kind < 0.75:
        return indexed_put(b, x)
    y = b.like(x) if b.rng.random() < 0.7 else b.pick(is_number)
    code = b.rng.choice(IN_PLACE_WITH)
    return y and Statement(code.replace("@", x).replace("%", y), x, "sum" if ".sum()" in code else "once")


def indexed_put(b: Any, x: str) -> Any:
    """Proposes rows written at indices; rows with the same index are equal, or are added."""
    n = b.shape_of(x)[0]
    if n is None:
        return None
    i = b.add_input("I64", (n,), "normal")
    at = f"{i} % {x}.shape[0]"
    source = f"old({x})" if b.rng.random() < 0.5 else f"old({x}.flip(0))"
    order = f"({at}).argsort(stable=True)"
    codes = [f"{x}.index_put_(({at},), {source}, accumulate=True)", f"{x}.index_add_(0, {at}, {source})"] * 2
    codes += [f"{x}.index_copy_(0, {order}, {source})", f"{x}[{order}] = {source}"]
    codes += [f"{x}[{at}] = 2", f"{x}.index_fill_(0, {at}, 1)"]
    return i and Statement(b.rng.choice(codes), x, "adds")


# ---- control flow

BRANCHES = (
    "lambda x: x * 2",
    "lambda x: x + 1",
    "lambda x: -x",
    "lambda x: x.abs()",
    "lambda x: x.clone()",
    "lambda x: x.flip(0).clone()",
)


def control(b: Any) -> Any:
    x = b.pick(ranked(1, kind=is_number))
    c = b.pick(lambda t: not is_float(t))
    if x is None:
        return None
    if b.rng.random() < 0.3:
        i = b.add_input("I64", (), "positive")
        ways = ("x + i", "x.flip(0).clone()")
        body = b.rng.choice(("x * 0.5 + 1", *ways) if is_float(b.value(x)) else ways)
        return i and made(
            b, f"while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, {body}), ({i}, {x}.clone()))[1]", "sum"
        )
    when = f"{c}.sum() > 1" if c and b.rng.random() < 0.7 else f"{x}.shape[0] > 6"
    then, other = b.rng.sample(BRANCHES, 2)
    return made(b, f"cond({when}, {then}, {other}, ({x},))", exact=(c,) if c and c in when else ())


TABLE = {
    view: 14,
    slicing: 10,
    sized: 3,
    unary: 16,
    binary: 16,
    where: 4,
    cast: 5,
    reduce: 8,
    cumulate: 3,
    softmax: 4,
    norm: 3,
    matmul: 5,
    conv: 3,
    pool: 2,
    attention: 2,
    roundabout: 4,
    join: 5,
    move: 4,
    order: 3,
    gather: 4,
    scatter: 3,
    in_place: 18,
    control: 2,
}


# One graph in four is mostly about views and in-place changes.
MEMORY = {in_place: 30, view: 12, slicing: 12, unary: 6, binary: 6, reduce: 3, join: 3, gather: 2, control: 2}


def table(of_memory: bool) -> tuple[list[Any], list[int]]:
    chosen = MEMORY if of_memory else TABLE
    return list(chosen), list(chosen.values())
