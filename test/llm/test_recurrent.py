"""Tests conversations whose state, of a convolution or a recurrence, has no row per token, on both devices."""

import time

import _models
import pytest
import torch
from _llm import Device, Llm, Talk

import clave

PROMPT = [5, 6, 7, 250, 9, 1, 1, 2]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("recurrent") / "m.clv"
    shapes = ({1: _models.LENGTH}, None)
    program = clave.export(_models.Scans(every=True).eval(), _models.arguments(3), dynamic_shapes=shapes)
    program.save(path)
    return path


@pytest.fixture(scope="module", params=["cpu", "opencl"])
def llm(path, request):
    return Llm(path, Device(request.param))


@torch.no_grad()
def reference(prompt, n):
    ids = list(prompt)
    while len(ids) < len(prompt) + n:
        ids.append(int(_models.Scans()(torch.tensor([ids]), 0)[0].argmax()))
    return ids[len(prompt) :]


def test_the_context_is_not_the_shape_of_a_state(llm):
    assert llm.info.max_context == _models.CONTEXT


@pytest.mark.parametrize("chunk", [1, 2, 3, 8, 0])
def test_chunks_do_not_matter(llm, chunk):
    talk = Talk(llm, chunk=chunk).prompt(PROMPT)
    want = reference(PROMPT, 20)
    assert len(set(want)) > 5 and talk.take(20)[0] == want
    more = talk.prompt([40, 41]).take(5)[0]
    assert more == reference([*PROMPT, *want, 40, 41], 5)
    assert talk.reset().prompt(PROMPT).take(5)[0] == want[:5]


def test_forks_and_files(llm, tmp_path):
    talk = Talk(llm).prompt(PROMPT)
    first = talk.take(5)[0]
    fork = talk.fork()
    talk.save(tmp_path / "talk")
    want = talk.prompt([9, 9]).take(10)[0]
    assert fork.prompt([8]).take(5)[0] == reference([*PROMPT, *first, 8], 5)
    again = Talk(llm).prompt([3, 4]).restore(tmp_path / "talk")
    assert again.prompt([9, 9]).take(10)[0] == want == reference([*PROMPT, *first, 9, 9], 10)


@torch.no_grad()
def test_how_likely_a_text_is(llm):
    ids = [*PROMPT, *range(20, 30)]
    want = _models.Scans(every=True)(torch.tensor([ids]), 0)[0].double().log_softmax(-1)
    for chunk in (4, 0):
        talk = Talk(llm, chunk=chunk)
        assert talk.score(ids)[1:] == pytest.approx(want[range(len(ids) - 1), ids[1:]].tolist(), abs=1e-5)
        assert talk.take(4)[0] == reference(ids, 4)


def test_the_first_tokens_do_not_wait_for_kernels(path):
    """The state moves to the device with the conversation."""
    talk, want, end = Talk(Llm(path, Device("opencl")), warm_up=1), reference(PROMPT, 30), time.monotonic() + 60
    while talk.answered_by() != b"opencl" and time.monotonic() < end:
        assert talk.reset().prompt(PROMPT).take(30)[0] == want
    assert talk.answered_by() == b"opencl" and talk.reset().prompt(PROMPT).take(30)[0] == want
