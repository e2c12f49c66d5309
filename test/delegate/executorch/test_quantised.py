"""Weights and activations of few bits: pt2e with ClaveQuantizer, torchao's weights, and the partitioner's own."""

import pytest
import torch
from lowering import assert_same, check, delegates, load, lower, ops_in, program_in
from torch import nn
from torchao.quantization import IntxWeightOnlyConfig, quantize_
from torchao.quantization.granularity import PerGroup
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

import clave
from clave.quantizer import ClaveQuantizer


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.scores = nn.Linear(8, 5)

    def forward(self, x):
        y = self.first(x).relu()
        return self.scores((self.second(y) + y).relu().mean((2, 3)))


def products():
    return nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 64)).eval()


def bits_in(part):
    return sorted(t.encoding.bits for t in program_in(part)[1].tensors if t.encoding)


@torch.no_grad()
@pytest.mark.by_turn(15)
def test_pt2e_becomes_convolutions_of_integers():
    images = [torch.randn(2, 3, 8, 8) for _ in range(3)]
    prepared = prepare_pt2e(torch.export.export(Images().eval(), (images[0],)).module(), ClaveQuantizer())
    for x in images:
        prepared(x)
    converted = convert_pt2e(prepared)
    edge, _ = lower(torch.export.export(converted, (images[0],)))
    (part,), own = delegates(edge)
    assert not own and ops_in(part).count("ConvInteger") == 2
    method = load(edge)
    for x in images:
        assert_same(method.execute((x,)), converted(x))


@torch.no_grad()
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.by_turn(15)
def test_torchao_weights_stay_codes(bits):
    module = products()
    quantize_(module, IntxWeightOnlyConfig(weight_dtype=getattr(torch, f"int{bits}"), granularity=PerGroup(32)))
    (part,) = check(module, (torch.randn(3, 128),), (torch.randn(3, 128),))
    assert bits_in(part) == [bits, bits]


@torch.no_grad()
@pytest.mark.by_turn(15)
def test_weights_of_four_bits():
    """The partitioner's quantisation has the numbers of clave.export's, and a seventh of the bytes."""
    module, x = products(), torch.randn(3, 128)
    edge, _ = lower(module, (x,), quantize="int4:32")
    (part,), _ = delegates(edge)
    assert bits_in(part) == [4, 4]
    session = clave.Session(clave.export(module, (x,), quantize="int4:32"), "cpu")
    assert_same(load(edge).execute((x,)), session(x), 0)
    plain, _ = lower(module, (x,))
    assert len(edge.to_executorch().buffer) < len(plain.to_executorch().buffer) / 5
