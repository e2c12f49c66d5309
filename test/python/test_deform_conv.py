"""deform_conv2d on both backends, compared with torchvision's own op."""

import pytest
import torch
import torchvision_ops  # noqa: F401 (declares the op)

import clave

pytestmark = pytest.mark.by_turn(17)

CLOSE = {torch.float16: {"rtol": 4e-3, "atol": 4e-3}, torch.float32: {"rtol": 1e-5, "atol": 1e-5}}
# stride, padding, dilation, groups, offset groups, mask
CALLS = [
    (1, 1, 1, 1, 1, 1, 1, 1, False),
    (2, 1, 0, 2, 1, 2, 1, 2, True),
    (1, 2, 2, 1, 2, 1, 2, 1, True),
    (1, 1, 1, 1, 1, 1, 3, 6, False),
]


class Deform(torch.nn.Module):
    def __init__(self, call, dtype=torch.float32):
        super().__init__()
        self.call = call
        g = torch.Generator().manual_seed(0)
        self.weight = torch.nn.Parameter(torch.randn(6, 6 // call[6], 3, 2, generator=g).mul(0.3).to(dtype))
        self.bias = torch.nn.Parameter(torch.randn(6, generator=g).to(dtype))

    def forward(self, x, offset, mask):
        return torch.ops.torchvision.deform_conv2d(x, self.weight, offset, mask, self.bias, *self.call)


def inputs(call, n=2, h=7, w=8, dtype=torch.float32):
    """Returns offsets, some of which point exactly at elements, some far out of the picture."""
    groups, sides = call[7], zip((h, w), (3, 2), call[:2], call[2:4], call[4:6], strict=True)
    out = [(size + 2 * padding - dilation * (k - 1) - 1) // stride + 1 for size, k, stride, padding, dilation in sides]
    g = torch.Generator().manual_seed(h)
    offset = torch.randint(-24, 25, (n, groups * 12, *out), generator=g) / 8
    offset[0, :, 0] *= 8
    return (
        torch.randn(n, 6, h, w, generator=g).to(dtype),
        offset.to(dtype),
        torch.rand(n, groups * 6, *out, generator=g).to(dtype),
    )


@pytest.mark.parametrize("device", ["cpu", "opencl"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("call", CALLS)
def test_calls(device, dtype, call):
    module, args = Deform(call, dtype), inputs(call, dtype=dtype)
    session = clave.Session(clave.export(module, args), device)
    for _ in range(2):
        torch.testing.assert_close(session(*args), module(*args).detach(), **CLOSE[dtype])
        args = tuple(a.flip(0) for a in args)


@pytest.mark.parametrize("device", ["cpu", "opencl"])
def test_any_batch_and_size(device):
    call = (1, 1, 2, 1, 2, 1, 2, 1, True)
    batch = torch.export.Dim("batch", min=1, max=8)
    h, w = (torch.export.Dim(n, min=4, max=32) for n in ("height", "width"))
    small = {0: batch, 2: h, 3: w + 1}
    program = clave.export(Deform(call), inputs(call), dynamic_shapes=({0: batch, 2: h, 3: w}, small, small))
    session = clave.Session(program, device)
    for n, height, width in ((2, 7, 8), (1, 5, 4), (4, 6, 9)):
        args = inputs(call, n, height, width)
        torch.testing.assert_close(session(*args), Deform(call)(*args).detach(), **CLOSE[torch.float32])


def test_infinity_at_the_edge_stays_where_it_is():
    """Elements outside the picture are zeros, whatever is next to them."""
    call = CALLS[0]
    x, offset, mask = inputs(call)
    x[:, :, 0] = torch.inf
    offset[:, :, -1] = -40.0
    got = clave.Session(clave.export(Deform(call), (x, offset, mask)), "cpu")(x, offset, mask)
    assert torch.isfinite(got[:, :, -1]).all()
