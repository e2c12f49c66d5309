"""Non-maximum suppression on both backends, compared with torchvision's own op."""

import _export
import pytest
import torch
import torchvision_ops  # noqa: F401 (declares the op)

import clave

pytestmark = pytest.mark.by_turn(15)

ANY = {0: torch.export.Dim("boxes", min=0, max=500)}


def kept(boxes, scores):
    return torch.ops.torchvision.nms(boxes, scores, 0.3)


def boxes(n, dtype=torch.float32):
    """Some boxes overlap, some have equal scores; sizes are integers, so that an overlap may equal the threshold."""
    g = torch.Generator().manual_seed(n)
    corners = torch.randint(0, 24, (n, 2), generator=g)
    sizes = torch.randint(0, 13, (n, 2), generator=g)
    return torch.cat([corners, corners + sizes], 1).to(dtype), torch.randint(0, 9, (n,), generator=g).to(dtype)


@pytest.mark.parametrize("device", ["cpu", "opencl"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_any_number_of_boxes(device, dtype):
    program = clave.export(_export.Fn(kept), boxes(40, dtype), dynamic_shapes={"args": (ANY, ANY)})
    session = clave.Session(program, device)
    for n in (40, 5, 1, 0, 200, 40):
        assert torch.equal(session(*boxes(n, dtype)), kept(*boxes(n, dtype)))


def test_threshold_is_a_number_of_the_boxes_dtype():
    """Two boxes share 3 of 10: 0.3 in f32 is above 0.3, so the second one is removed."""
    two = torch.tensor([[0.0, 0, 10, 1], [0, 0, 3, 1]]), torch.tensor([2.0, 1.0])
    assert torch.equal(clave.Session(clave.export(_export.Fn(kept), two), "cpu")(*two), kept(*two))
