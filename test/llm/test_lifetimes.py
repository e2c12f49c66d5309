"""Objects of the package are freed with their last reference, without the collector, after any use; close()."""

import gc
import weakref

import _models
import numpy as np
import pytest

import clave
from clave import LLM, Device, Error, Program, Session, Tokenizer


def fails(*_):
    raise ValueError("mine")


def refused(call, *given, error=Exception):
    """Makes a call that must fail, and keeps nothing of the exception."""
    try:
        call(*given)
    except error:
        return
    raise AssertionError("no error")


USES = {
    "loaded": lambda m: None,
    "generate": lambda m: m.generate("A", max_new_tokens=1),
    "generate, twice": lambda m: (m.generate("A", max_new_tokens=1), m.generate("B", max_new_tokens=1, stop="x")),
    "stream": lambda m: list(m.generate("A", max_new_tokens=2, stream=True)),
    "stream, left": lambda m: next(m.generate("A", max_new_tokens=5, stream=True)),
    "stream, not begun": lambda m: m.generate("A", stream=True),
    "generate_each": lambda m: m.generate_each(["A", "B"], max_new_tokens=2),
    "chat": lambda m: m.chat("A", max_new_tokens=2),
    "chat, stream": lambda m: list(m.chat("A", max_new_tokens=2, stream=True)),
    "chat_each": lambda m: m.chat_each(["A", "B"], max_new_tokens=2, tools=[{"a": 1}]),
    "apply_chat_template": lambda m: m.apply_chat_template([{"role": "user", "content": "A"}], tokenize=True),
    "conversation": lambda m: m.conversation().prompt("A").generate(max_new_tokens=1),
    "conversation, send, undo": lambda m: m.conversation().send("A", max_new_tokens=1) and m.conversation(),
    "fork": lambda m: m.conversation().prompt("A").fork().generate(max_new_tokens=1),
    "logits": lambda m: m.generate("A", max_new_tokens=1, logits=lambda x, ids: x),
    "logits, raised": lambda m: refused(lambda: m.generate("A", logits=fails), error=ValueError),
    "logits, raised in a stream": lambda m: refused(lambda: list(m.generate("A", stream=True, logits=fails))),
    "wrong option": lambda m: refused(lambda: m.generate("A", top_k=-1), error=Error),
    "too long": lambda m: refused(lambda: m.generate("A" * 500), error=Error),
    "tokenizer": lambda m: m.tokenizer.decode(m.tokenizer.encode("A")),
    "tokenizer, stream": lambda m: "".join(m.tokenizer.stream(iter(m.tokenizer.encode("AB")))),
    "with": lambda m: m.__enter__().__exit__(None, None, None),
    "closed": lambda m: m.close(),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lifetimes")
    said = {"chat_template": "{% for m in messages %}[{{ m.content }}]{% endfor %}"}
    _models.export(folder / "m.clv", tokenizer=_models.byte_ranks(folder / "bytes.tiktoken"), llm=said)
    return folder


@pytest.fixture
def uncollected():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("use", USES)
def test_language_models(folder, uncollected, use):
    """The model and all objects made from it are freed."""
    llm = LLM(folder / "m.clv", "cpu")
    USES[use](llm)
    alive = [weakref.ref(x) for x in (llm, llm.device, llm.tokenizer, llm._handle)]
    del llm
    assert [r() for r in alive] == [None] * len(alive)


@pytest.mark.parametrize("how", ["generate", "stream", "send", "raised"])
def test_conversations_and_streams(folder, uncollected, how):
    llm = LLM(folder / "m.clv", "cpu")
    talk = llm.conversation(**({"logits": fails} if how == "raised" else {})).prompt("A")
    made = [talk, talk._handle]
    if how == "generate":
        made.append(talk.generate(max_new_tokens=2, logprobs=2))
    elif how == "stream":
        made.append(talk.generate(max_new_tokens=2, stream=True))
        list(made[-1])
    elif how == "send":
        made.append(talk.reset().send("A", max_new_tokens=2, stream=True))
        next(made[-1])
    else:
        made.append(talk.generate(stream=True))
        refused(lambda: next(made[-1]), error=ValueError)
    alive = [weakref.ref(x) for x in made if not isinstance(x, str)]
    del talk
    made.clear()
    assert [r() for r in alive] == [None] * len(alive)


@pytest.mark.parametrize("how", ["made", "run", "called", "wrong", "observed", "raised", "placed", "closed"])
def test_sessions(folder, uncollected, how):
    program, device = Program.load(folder / "m.clv"), Device("cpu")
    session = Session(program, device)
    given = np.ones((1, 3), np.int64), np.array(0)
    if how == "run":
        session.run(*given)
        session.reset()
    elif how == "called":
        session(*given)
    elif how == "wrong":
        refused(session.run, given[0])
        refused(session.run, np.ones((1, 3), np.float32), given[1])
    elif how == "observed":
        session.observe(lambda node, value: None)
        session.run(*given)
    elif how == "raised":
        session.observe(fails)
        refused(session.run, *given, error=ValueError)
    elif how == "placed":
        assert session.placement() and device.supported(program)
    elif how == "closed":
        session.close()
    alive = [weakref.ref(x) for x in (session, program, device, program.handle, session._handle)]
    del session, program, device
    assert [r() for r in alive] == [None] * len(alive)


def test_tokenizers(folder, uncollected):
    tokenizer = Tokenizer(folder / "bytes.tiktoken")
    tokenizer.decode(tokenizer.encode("AB"))
    list(tokenizer.stream(tokenizer.encode("AB")))
    refused(tokenizer.decode, [10**6], error=Error)
    alive = weakref.ref(tokenizer)
    del tokenizer
    assert alive() is None


def test_closed_models(folder):
    """Every use of a closed model is an Error; open conversations continue."""
    with LLM(folder / "m.clv", "cpu") as llm:
        want = llm.generate("A", max_new_tokens=3).ids
        talk = llm.conversation().prompt("A")
        left = llm.generate("A", max_new_tokens=3, stream=True)
        next(left)
    tokenizer = llm.tokenizer
    for call in (
        lambda: llm.generate("A"),
        lambda: llm.generate("A", stream=True),
        lambda: llm.chat("A"),
        lambda: llm.conversation(),
        lambda: llm.apply_chat_template([{"role": "user", "content": "A"}]),
        lambda: tokenizer.encode("A"),
        lambda: tokenizer.decode([1]),
        lambda: tokenizer.find("A"),
        lambda: list(tokenizer.stream([1])),
    ):
        with pytest.raises(Error, match="closed"):
            call()
    assert talk.generate(max_new_tokens=3).ids == want
    assert left.answer().ids == want
    llm.close()
    with talk.fork() as other:
        assert other.ids == talk.ids
    for call in (lambda: other.ids, lambda: other.generate(), lambda: other.fork(), lambda: other.stats):
        with pytest.raises(Error, match="closed"):
            call()


def test_closed_sessions(folder):
    given = np.ones((1, 3), np.int64), np.array(0)
    with Session(folder / "m.clv", "cpu") as session:
        session.run(*given)
    session.close()
    for call in (lambda: session.run(*given), session.reset, session.placement, lambda: session.answered_by):
        with pytest.raises(Error, match="closed"):
            call()
    assert Session(session.program, session.device).run(*given)
    with pytest.raises(ValueError, match="mine"), clave.Session(folder / "m.clv", "cpu") as session:
        fails()
    with pytest.raises(Error, match="closed"):
        session.reset()
