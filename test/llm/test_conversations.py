"""Conversations: chunks, stops, the context's end, forks, files, several at once."""

import concurrent.futures
import json
import struct
import time

import _models
import pytest
import torch
from _llm import CONTEXT_FULL, GOES_ON, STOP_TEXT, Device, Llm, Talk

import clave
from clave import Error

PROMPT = [5, 6, 7, 250, 9, 1, 1, 2]


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    _models.export(folder / "next.clv")
    _models.byte_ranks(folder / "bytes.tiktoken")
    return folder


@pytest.fixture(scope="session", params=["cpu", "opencl"])
def llm(models, request):
    return Llm(models / "next.clv", Device(request.param))


@pytest.fixture(scope="session")
def texts(models):
    """Returns a model with a tokenizer; ids from 256 on have no text."""
    return Llm(models / "next.clv", Device("cpu"), models / "bytes.tiktoken")


def test_info(llm, texts):
    info = llm.info
    assert (info.max_context, info.n_vocab, info.bos, info.n_stop_ids) == (64, 300, -1, 0)
    assert info.chat_template is None and not info.tokenizer and texts.info.tokenizer


@pytest.mark.parametrize("chunk", [1, 2, 3, 5, 8, 0])
def test_chunks_do_not_matter(llm, chunk):
    talk = Talk(llm, chunk=chunk).prompt(PROMPT)
    want = _models.reference(PROMPT, 20)
    assert talk.take(20) == (want, "", GOES_ON)
    assert talk.ids() == PROMPT + want
    stats = talk.stats()
    assert (stats.prompt_tokens, stats.decode_tokens) == (8, 19)
    assert stats.prompt_ms > 0 and stats.decode_ms > 0 and stats.ttft_ms >= stats.prompt_ms > 0 and stats.load_ms > 0


def test_prompts_may_come_in_parts(llm):
    talk = Talk(llm).prompt(PROMPT[:3]).prompt(PROMPT[3:])
    first = talk.take(5)[0]
    assert first == _models.reference(PROMPT, 5)
    talk.prompt([40, 41])
    assert talk.take(5)[0] == _models.reference(PROMPT + first + [40, 41], 5)


@pytest.mark.parametrize("form", ["scalar", "each"])
def test_the_first_tokens_do_not_wait_for_kernels(tmp_path, form):
    """The CPU backend makes the first tokens; then conversation and forks move to the device with their caches."""
    llm = Llm(_models.export(tmp_path / "m.clv", form=form), Device("opencl"))
    talk, want, end = Talk(llm, warm_up=1), _models.reference(PROMPT, 40), time.monotonic() + 60
    assert talk.answered_by() is None
    while talk.answered_by() != b"opencl" and time.monotonic() < end:
        got = talk.reset().prompt(PROMPT).take(1)[0]
        assert got == want[:1]
        for n in range(1, 40, 3):
            assert talk.take(3)[0] == want[n : n + 3]
            assert talk.fork().take(2)[0] == want[n + 3 : n + 5] or n > 34
    assert talk.answered_by() == b"opencl"
    assert talk.reset().prompt(PROMPT).take(40)[0] == want


VARIANTS = {
    "every": {"every": True},
    "one": {"fixed": 1, "form": "vector"},
    "each": {"form": "each"},
    "f16": {"dtype": "float16", "every": True},
    "bf16": {"dtype": "bfloat16"},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_kinds_of_methods(name, tmp_path):
    options = dict(VARIANTS[name])
    dtype = options["dtype"] = getattr(torch, options.pop("dtype", "float32"))
    llm = Llm(_models.export(tmp_path / "m.clv", **options), Device("cpu"))
    assert Talk(llm).prompt(PROMPT).take(12)[0] == _models.reference(PROMPT, 12, dtype)


def test_prefill(tmp_path):
    """The program has a method for four tokens at once and one for single tokens."""
    model = _models.Next()
    methods = {"forward": (model, _models.arguments(1)), "prefill": (model, _models.arguments(4))}
    clave.export(methods).save(tmp_path / "m.clv")
    llm = Llm(tmp_path / "m.clv", Device("cpu"))
    for n in range(1, 9):
        assert Talk(llm).prompt(PROMPT[:n]).take(6)[0] == _models.reference(PROMPT[:n], 6)


def test_context_end(llm):
    with pytest.raises(Error, match="prompt of 64 tokens after 0 tokens leaves no space for an answer"):
        Talk(llm).prompt([1] * 64)
    talk = Talk(llm).prompt([1] * 63)
    assert talk.take(9)[2] == CONTEXT_FULL
    assert len(talk.ids()) == 64
    with pytest.raises(Error, match="context of 64 tokens is full"):
        talk.next()
    with pytest.raises(Error, match="prompt of 1 tokens after 64"):
        talk.prompt([1])
    talk.reset().prompt(PROMPT)
    ids, _, stop = talk.take(100)
    assert stop == CONTEXT_FULL and ids == _models.reference(PROMPT, 56)
    assert talk.stats().prompt_tokens == 8


def test_nothing_is_appended_after_an_error(llm):
    talk = Talk(llm)
    with pytest.raises(Error, match="the conversation has no prompt"):
        talk.next()
    for bad in ([1, 300], [2**32 - 1], [1] * 100):
        with pytest.raises(Error):
            talk.prompt(bad)
    with pytest.raises(Error, match="needs a tokenizer"):
        talk.prompt("text")
    assert talk.ids() == []
    assert talk.prompt(PROMPT).take(3)[0] == _models.reference(PROMPT, 3)


def test_fork_goes_its_own_way(llm):
    for options in ({}, {"temperature": 1.5, "seed": 3}):
        talk = Talk(llm, **options).prompt(PROMPT)
        talk.take(5)
        fork = talk.fork()
        assert fork.ids() == talk.ids()
        other = talk.fork().prompt([77])
        a, b = talk.take(10), other.take(10)
        assert fork.take(10) == a != b


def test_saved_conversations_go_on(llm, tmp_path):
    for options in ({}, {"temperature": 1.5, "seed": 3}):
        talk = Talk(llm, **options).prompt(PROMPT)
        talk.take(5)
        talk.save(tmp_path / "talk")
        want = talk.take(10)
        again = Talk(llm, **options).prompt([3, 4]).restore(tmp_path / "talk")
        assert again.ids() == PROMPT + again.ids()[8:] and len(again.ids()) == 13
        assert again.take(10) == want
    fresh = Talk(llm)
    fresh.save(tmp_path / "fresh")
    assert fresh.prompt(PROMPT).restore(tmp_path / "fresh").ids() == []


def safetensors(data):
    size = struct.unpack_from("<Q", data)[0]
    return json.loads(data[8 : 8 + size]), data[8 + size :]


def damaged(data):
    """Yields (description of the fault, the file's bytes)."""
    header, body = safetensors(data)
    at = header["state.0"]["data_offsets"][0]
    yield "", data[: len(data) // 2]
    yield "", b""
    yield "damaged", data[: -len(body)] + body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]
    yield "another program", patched(header, body, "conversation", 24)
    yield "version", patched(header, body, "conversation", 0)
    yield "were run", patched(header, body, "conversation", 12)
    yield "out of range", patched(header, body, "ids", 4)
    yield "written", patched(header, body, "conversation", 33)
    for name in ("ids", "logits", "state.0", "check", "conversation", "messages", "turns"):
        rest = {("x" if k == name else k): v for k, v in header.items()}
        yield name, written(rest, body)


def written(header, body):
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + body


def patched(header, body, name, at):
    at += header[name]["data_offsets"][0]
    return written(header, body[:at] + bytes([body[at] ^ 0x40]) + body[at + 1 :])


def test_damaged_files(llm, tmp_path):
    talk = Talk(llm).prompt(PROMPT)
    talk.take(5)
    talk.save(tmp_path / "good")
    ids = talk.ids()
    for part, data in damaged((tmp_path / "good").read_bytes()):
        (tmp_path / "bad").write_bytes(data)
        with pytest.raises(Error, match=f"{part}.*bad"):
            talk.restore(tmp_path / "bad")
        assert talk.ids() == ids
    assert talk.take(8)[0] == _models.reference(PROMPT, 13)[5:]


@pytest.mark.parametrize("change", [{"dtype": torch.float16}, {"every": True}, {"context": 32}])
def test_other_programs_conversations(llm, tmp_path, change):
    """The other programs have another table, the same table in another graph, or another state."""
    Talk(llm).prompt(PROMPT).save(tmp_path / "talk")
    other = Llm(_models.export(tmp_path / "m.clv", **change), Device("cpu"))
    with pytest.raises(Error, match="another program"):
        Talk(other).restore(tmp_path / "talk")


def test_conversations_do_not_meet(llm):
    a, b = Talk(llm).prompt(PROMPT), Talk(llm, chunk=2).prompt(PROMPT[::-1])
    pairs = [(a.next()[0], b.next()[0]) for _ in range(10)]
    assert [p[0] for p in pairs] == _models.reference(PROMPT, 10)
    assert [p[1] for p in pairs] == _models.reference(PROMPT[::-1], 10)


def test_threads(llm):
    def run(i):
        prompt = [i, *PROMPT]
        talk = Talk(llm).prompt(prompt)
        return all(talk.reset().prompt(prompt).take(15)[0] == want for want in [_models.reference(prompt, 15)] * 3)

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        assert all(pool.map(run, range(6)))


def test_cancel(llm):
    stopped = [False]
    talk = Talk(llm, chunk=2, cancel=lambda: stopped[0]).prompt(PROMPT)
    first = talk.take(2)[0]
    stopped[0] = True
    with pytest.raises(Error):
        talk.next()
    assert talk.ids() == PROMPT + first
    stopped[0] = False
    assert first + talk.take(5)[0] == _models.reference(PROMPT, 7)


def test_log_probabilities(llm):
    """Log probabilities come from the model's own logits, not from logits that the sampler or a function changed."""
    model = _models.Next()
    for options in ({}, {"temperature": 2, "seed": 3, "top_k": 40}, {"change": lambda _, ids, out: True}):
        talk = Talk(llm, **options).prompt(PROMPT)
        for _ in range(5):
            talk.next()
            ids = talk.ids()
            with torch.no_grad():
                want = torch.log_softmax(model(torch.tensor([ids[:-1]]), torch.tensor(0))[0].double(), -1)
            chosen, top = talk.logprobs(5)
            assert chosen[0] == ids[-1] and chosen[1] == pytest.approx(want[ids[-1]].item(), abs=1e-6)
            assert [i for i, _ in top] == want.topk(5).indices.tolist()
            assert [p for _, p in top] == pytest.approx(want.topk(5).values.tolist(), abs=1e-6)
        everything = talk.logprobs(300)[1]
        assert sorted(i for i, _ in everything) == list(range(300)) and talk.logprobs(0)[1] == []
        with pytest.raises(Error, match="expected at most as many tokens as the vocabulary has: 301 requested of 300"):
            talk.logprobs(301)
        with pytest.raises(Error, match="only directly after a token is chosen"):
            talk.prompt([1]).logprobs(1)


def test_changed_logits(llm):
    """A function may forbid ids: the next one is chosen among the others, and the model's logits are unchanged."""
    seen = []

    def even(logits, ids, out):
        seen.append(ids)
        for i in range(1, len(logits), 2):
            out[i] = float("-inf")
        return True

    talk = Talk(llm, change=even).prompt(PROMPT)
    ids = talk.take(10)[0]
    assert all(i % 2 == 0 for i in ids) and seen == [PROMPT + ids[:n] for n in range(10)]
    assert talk.fork().next() == talk.next()
    refuses = Talk(llm, change=lambda logits, ids, out: len(ids) < 10).prompt(PROMPT)
    assert refuses.take(2)[0] == _models.reference(PROMPT, 2)
    with pytest.raises(Error, match="the function that changes logits stopped the generation"):
        refuses.next()
    assert len(refuses.ids()) == 10


def test_a_smaller_context(models):
    llm = Llm(models / "next.clv", Device("cpu"), max_context=12)
    assert llm.info.max_context == 12
    talk = Talk(llm).prompt(PROMPT)
    assert talk.take(9) == (_models.reference(PROMPT, 4), "", CONTEXT_FULL)
    with pytest.raises(Error, match="no space for an answer in the context of 12 tokens: 2 too many"):
        talk.rewind(8).prompt([1] * 5)
    with pytest.raises(Error, match="max_context: 65 exceeds the 64 tokens"):
        Llm(models / "next.clv", Device("cpu"), max_context=65)
    with pytest.raises(Error, match="no room for an answer"):
        Llm(models / "next.clv", Device("cpu"), max_context=1)


# ---------------------------------------------------------------- text


def decode(ids):
    return bytes(i for i in ids if i < 256).decode(errors="replace")


def test_text_is_whole_characters(texts):
    talk = Talk(texts).prompt("Größe: 日本")
    assert bytes(talk.ids()).decode() == "Größe: 日本"
    ids, text, stop = talk.take(100)
    assert stop == CONTEXT_FULL and text == decode(ids)


def answer(texts, prompt, n, **options):
    talk = Talk(texts, **options).prompt(prompt)
    ids, text, stop = talk.take(n)
    return ids, text + (talk.flush() if stop == GOES_ON else ""), stop


def test_stop_texts_span_tokens(texts):
    plain = answer(texts, "seed", 40)[1]
    for begin in range(0, 20, 3):
        for size in (1, 2, 5):
            stop = plain[begin : begin + size]
            ids, text, why = answer(texts, "seed", 40, stop=["never there", stop])
            assert why == STOP_TEXT and text == plain[: plain.index(stop)]
            assert decode(ids).startswith(text)


def test_text_that_might_have_stopped_is_given(texts):
    plain = answer(texts, "seed", 40)[1]
    for begin in range(0, 30, 4):
        stop = plain[begin : begin + 4] + "¤"
        assert answer(texts, "seed", 40, stop=[stop])[:2] == answer(texts, "seed", 40)[:2]
        assert answer(texts, "seed", begin + 2, stop=[stop])[:2] == answer(texts, "seed", begin + 2)[:2]


def test_bad_stop_texts(texts, llm):
    with pytest.raises(Error, match="stop text 1 is empty"):
        Talk(texts, stop=["a", ""])
    with pytest.raises(Error, match="need a tokenizer"):
        Talk(llm, stop=["a"])
