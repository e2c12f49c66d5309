"""roi_align and roi_pool on both backends, compared with torchvision's own ops."""

import _export
import pytest
import torch
import torchvision_ops  # noqa: F401 (declares the ops)

import clave

pytestmark = pytest.mark.by_turn(17)

ANY = {0: torch.export.Dim("boxes", min=0, max=500)}
CLOSE = {torch.float16: {"rtol": 2e-3, "atol": 2e-3}, torch.float32: {"rtol": 1e-5, "atol": 1e-5}}


def inputs(k, dtype=torch.float32):
    """Returns two pictures and boxes in, across and outside them, some smaller than a bin, some inside out."""
    g = torch.Generator().manual_seed(k)
    pictures = torch.randn(2, 5, 9, 12, generator=g).to(dtype)
    corners = torch.randint(-40, 140, (k, 2), generator=g) / 4
    sizes = torch.randint(-12, 120, (k, 2), generator=g) / 4
    which = torch.randint(0, 2, (k, 1), generator=g)
    return pictures, torch.cat([which, corners, corners + sizes], 1).to(dtype)


def agrees(f, device, dtype):
    """Compares several numbers of boxes; the first again after none."""
    program = clave.export(_export.Fn(f), inputs(7, dtype), dynamic_shapes={"args": ({}, ANY)})
    session = clave.Session(program, device)
    for k in (7, 1, 0, 24, 7):
        got, want = session(*inputs(k, dtype)), f(*inputs(k, dtype))
        torch.testing.assert_close(got, want, **CLOSE[dtype])


@pytest.mark.parametrize("device", ["cpu", "opencl"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("sampling", [2, 0, -1])
def test_align(device, dtype, aligned, sampling):
    agrees(lambda x, b: torch.ops.torchvision.roi_align(x, b, 0.5, 3, 2, sampling, aligned), device, dtype)


@pytest.mark.parametrize("device", ["cpu", "opencl"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_pool(device, dtype):
    agrees(lambda x, b: torch.ops.torchvision.roi_pool(x, b, 0.5, 3, 2)[0], device, dtype)


def test_pictures_of_any_size():
    def f(x, b):
        return torch.ops.torchvision.roi_align(x, b, 1.0, 2, 2, 0, True), torch.ops.torchvision.roi_pool(
            x, b, 1.0, 2, 2
        )[0]

    sizes = {i: torch.export.Dim(n, min=2, max=64) for i, n in ((0, "pictures"), (2, "height"), (3, "width"))}
    program = clave.export(_export.Fn(f), inputs(7), dynamic_shapes={"args": (sizes, ANY)})
    session = clave.Session(program, "cpu")
    for n, h, w in ((2, 9, 12), (3, 4, 5), (2, 20, 3)):
        args = torch.randn(n, 5, h, w), inputs(6)[1]
        _export.same(session(*args), f(*args))


@pytest.mark.parametrize("device", ["cpu", "opencl"])
@pytest.mark.parametrize("side", [1e6, 1e30, float("inf")])
def test_box_too_large_to_read_is_an_error(device, side):
    pictures, boxes = inputs(3)
    f = _export.Fn(lambda x, b: torch.ops.torchvision.roi_align(x, b, 1.0, 2, 2, 0, True))
    session = clave.Session(clave.export(f, (pictures, boxes)), device)
    boxes[1, 3:] = side
    with pytest.raises(clave.Error, match="bytes exceeds"):
        session(pictures, boxes)


def test_box_of_no_picture_is_an_error():
    pictures, boxes = inputs(3)
    session = clave.Session(
        clave.export(
            _export.Fn(lambda x, b: torch.ops.torchvision.roi_align(x, b, 1.0, 2, 2, 2, True)), (pictures, boxes)
        ),
        "cpu",
    )
    boxes[1, 0] = 2
    with pytest.raises(clave.Error, match="out of range"):
        session(pictures, boxes)
