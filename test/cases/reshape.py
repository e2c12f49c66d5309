"""Views: view, reshape, flatten, squeeze, permute, transpose, expand, and ops that read through them. Exact."""

import torch

from describe import BOOL, F16, F32, F64, I64, U8, Case, T, name_of


def shapes(x):  # (4, 6, 5)
    return (
        x.view(24, 5), x.reshape(-1), x.reshape(2, 2, 3, 10), x.flatten(1), x.flatten(0, 1), x.unsqueeze(0), x.unsqueeze(-1), x[:, :1].squeeze(1),
        x.unflatten(1, (2, 3)), x.view(4, 1, 6, 5).squeeze(), x.view(1, 4, 30).squeeze(0),
    )  # fmt: skip


def orders(x):
    return (
        x.permute(2, 0, 1),
        x.transpose(0, 1),
        x.transpose(-1, -2),
        x.movedim(0, -1),
        x.permute(0, -1, 1),
        x.mT,
        x[0].t(),
    )


def repeats(x):
    return (
        x[:, :1].expand(4, 7, 5),
        x[None].expand(3, -1, -1, -1),
        x.repeat(2, 1, 3),
        x.repeat(2, 1, 1, 2),
        x[:1].expand(0, 6, 5),
        torch.tile(x, (1, 2)),
    )


def copies(x):
    """Reshapes of tensors that are not contiguous, which need a copy."""
    return (
        x.permute(2, 0, 1).reshape(5, 24),
        x[:, ::2].reshape(-1),
        x.transpose(0, 1).contiguous().view(-1),
        x.expand(2, 4, 6, 5).reshape(8, 30),
        x.flip(0).reshape(-1),
    )


def cases():
    for dtype in (F32, F16, F64, I64, U8, BOOL):
        d = name_of(dtype)
        for f in (shapes, orders, repeats, copies):
            yield Case(f"{f.__name__}_{d}", f, [T((4, 6, 5), dtype, 0, 100)])
            # Outputs that are views of an input are copied out; here they are read by an op first.
            if dtype is not BOOL:
                yield Case(
                    f"{f.__name__}_read_{d}", lambda x, f=f: tuple(y + 1 for y in f(x)), [T((4, 6, 5), dtype, 0, 100)]
                )
    yield Case("identity", lambda x: x, [T((3, 4))])
    yield Case("same_twice", lambda x: (x + 1, x + 1, x), [T((3, 4))], rtol=1e-7)
    yield Case("clone", lambda x: (x.clone(), x.t().clone(), x.t().contiguous(), x[1:].clone()), [T((3, 4))])
    yield Case("scalar", lambda x: (x.reshape(1, 1), x.expand(3, 2), x.unsqueeze(0)), [T(())])
    yield Case("empty", lambda x: (x.reshape(0), x.view(3, 0, 2), x.permute(1, 0), x.expand(2, 0, 6)), [T((0, 6))])
    yield Case("two_outputs_one_buffer", lambda x: (lambda y: (y, y.t(), y.view(-1)))(x * 2), [T((3, 4))])
    yield Case("tiles", lambda x: x.t(), [T((35, 18))])
    yield Case("rank7_reversed", lambda x: x.permute(6, 5, 4, 3, 2, 1, 0), [T((2, 3, 2, 3, 2, 3, 2))])
    yield Case("rank8", lambda x: x.permute(7, 6, 5, 4, 3, 2, 1, 0) * 1, [T((1, 2, 1, 3, 1, 2, 1, 2))])
