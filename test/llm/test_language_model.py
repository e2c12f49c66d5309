"""clave.LLM and clave.Conversation against torch and Jinja, on both devices."""

import json

import _models
import jinja2
import numpy as np
import pytest
import torch

import clave
from clave import LLM, Error, Sampling

PROMPT = "seed"
FIRST = list(PROMPT.encode())  # ids are bytes
TEMPLATE = (
    "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}:{{ m.content }}"
    "<|im_end|>{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant:{{ more }}{% endif %}"
)
CHAT = [{"role": "system", "content": "S"}, {"role": "user", "content": "<|im_end|>é"}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("python_llm")
    tokenizer = _models.byte_tokenizer(folder / "tokenizer.json")
    said = {"chat_template": TEMPLATE, "max_context": 200, "bos": 256, "eos": 257}
    _models.export(folder / "m.clv", tokenizer=tokenizer, llm=said, context=200)
    _models.export(folder / "ids.clv")
    return folder


@pytest.fixture(scope="module", params=["cpu", "opencl"])
def llm(folder, request):
    return LLM(folder / "m.clv", request.param)


def decode(llm, ids):
    return llm.tokenizer.decode([i for i in ids if i < 260], skip_special=True)


def reference(prompt, n):
    """Returns the tokens of _models.reference, in a context of 200."""
    model, ids = _models.Next(context=200), list(prompt)
    with torch.no_grad():
        for _ in range(n):
            ids.append(int(model(torch.tensor([ids]), torch.tensor(0))[0].argmax()))
    return ids[len(prompt) :]


def test_what_it_is(llm, folder):
    assert (llm.max_context, llm.n_vocab, llm.bos, llm.stop_ids, llm.chat_template) == (
        200,
        300,
        256,
        [257, 259],
        TEMPLATE,
    )
    assert llm.tokenizer.decode(llm.tokenizer.encode("ab")) == "ab" and llm.tokenizer.n_ids == 260
    ids = LLM(folder / "ids.clv", llm.device, max_context=10)
    assert (ids.max_context, ids.tokenizer, ids.chat_template, ids.bos) == (10, None, None, None)
    answer = ids.generate(FIRST)
    assert answer == "" and answer.ids == _models.reference(FIRST, 6) and answer.stop_reason == "context_full"
    assert ids.generate(np.array(FIRST), max_new_tokens=3).ids == answer.ids[:3]


def test_generate(llm):
    want = reference([256, *llm.tokenizer.encode(PROMPT)], 20)
    answer = llm.generate(PROMPT, max_new_tokens=20, ignore_stop_ids=True)
    assert answer == decode(llm, want) and answer.ids == want and answer.stop_reason == "max_new_tokens"
    assert answer.logprobs == [] and isinstance(answer, str)
    stream = llm.generate(PROMPT, max_new_tokens=20, ignore_stop_ids=True, stream=True)
    pieces = [next(stream)]
    assert stream.stop_reason is None and len(stream.ids) < 20
    pieces += list(stream)
    assert "".join(pieces) == answer and all(pieces) and stream.ids == want and stream.stop_reason == "max_new_tokens"
    stop = answer[5:8]
    ended = llm.generate(PROMPT, stop=stop, ignore_stop_ids=True)
    assert ended == answer[: answer.index(stop)] and ended.stop_reason == "stop_text"
    half = llm.generate(PROMPT, stream=True, max_new_tokens=20, ignore_stop_ids=True)
    first = next(half)
    assert first + half.answer() == answer and half.answer() == ""


def test_sampling(llm):
    how = {"temperature": 3, "top_k": 40, "ignore_stop_ids": True, "max_new_tokens": 8}
    one, again, other = (llm.generate(PROMPT, seed=s, **how).ids for s in (1, 1, 2))
    assert one == again != other
    a, b = llm.tokenizer.encode("AB")
    assert llm.generate(PROMPT, logit_bias={a: 100, b: 90}, presence_penalty=20, max_new_tokens=2) == "AB"


def test_sampling_of_the_model(llm, folder):
    """The options are read as transformers reads a generation_config.json: top_k is 50 by default."""
    _models.export(folder / "says.clv", llm={"sampling": {"do_sample": True, "temperature": 3.0, "top_p": 0.5}})
    says = LLM(folder / "says.clv", llm.device)
    assert says.sampling == Sampling(temperature=3, top_p=0.5, top_k=50) and llm.sampling is None
    how = {"seed": 4, "max_new_tokens": 6}
    spelt = says.generate(FIRST, temperature=3, top_p=0.5, top_k=50, **how).ids
    assert says.generate(FIRST, sampling="model", **how).ids == spelt != says.generate(FIRST, **how).ids
    talk = says.conversation(sampling="model", top_k=2, seed=4).prompt(FIRST)
    assert talk.generate(max_new_tokens=6).ids == says.generate(FIRST, temperature=3, top_p=0.5, top_k=2, **how).ids
    for given, message in (
        ("model", "does not say how to sample"),
        ("hot", "sampling: expected greedy, model, chat, got 'hot'"),
    ):
        with pytest.raises(Error, match=message):
            llm.generate(PROMPT, sampling=given)
    _models.export(folder / "greedy.clv", llm={"sampling": {"temperature": 3.0, "repetition_penalty": 1.5}})
    assert LLM(folder / "greedy.clv", llm.device).sampling == Sampling(repetition_penalty=1.5)


def test_answers_do_not_meet(llm):
    """Answers do not depend on earlier text, seeds, options or an abandoned answer."""
    how = {"temperature": 3, "seed": 5, "max_new_tokens": 6, "ignore_stop_ids": True}
    one = llm.conversation(**{k: v for k, v in how.items() if k != "max_new_tokens"})
    want = one.prompt(PROMPT).generate(max_new_tokens=6).ids
    left = llm.generate("other", stream=True, **how)
    next(left)
    for other in ({}, {"stop": "x"}, {"seed": 1, "top_k": 3}, {"logits": lambda x, i: x}):
        assert llm.generate(PROMPT, **how).ids == want
        llm.generate("something else", max_new_tokens=3, **other)
    two = [llm.generate(PROMPT, stream=True, **how) for _ in range(2)]
    assert [next(two[0]), next(two[1])] and list(two[0]) == list(two[1]) and two[0].ids == two[1].ids == want
    left.answer()
    with pytest.raises(Error):
        llm.generate("x" * 300)
    assert llm.generate(PROMPT, **how).ids == want


def test_logprobs(llm):
    answer = llm.generate(PROMPT, max_new_tokens=4, logprobs=3, ignore_stop_ids=True)
    ids = [256, *llm.tokenizer.encode(PROMPT)]
    for token in answer.logprobs:
        logits = _models.Next(context=200)(torch.tensor([ids]), torch.tensor(0))[0]
        want = torch.log_softmax(logits.double(), -1)
        assert token.logprob == pytest.approx(want[token.id].item(), abs=1e-6) and len(token.top) == 3
        assert [i for i, _ in token.top] == want.topk(3).indices.tolist()
        ids.append(token.id)
    assert [t.id for t in answer.logprobs] == answer.ids


def test_a_function_of_logits(llm):
    seen = []

    def small(logits, ids):
        seen.append((logits.dtype, logits.shape, len(ids)))
        return np.where(np.arange(300) < 100, logits, -np.inf)

    def in_place(logits, ids):
        logits[100:] = -np.inf

    answer = llm.generate(PROMPT, max_new_tokens=6, logits=small)
    assert max(answer.ids) < 100 and seen == [(np.float32, (300,), 5 + i) for i in range(6)]
    assert llm.generate(PROMPT, max_new_tokens=6, logits=in_place) == answer

    def fails(logits, ids):
        raise KeyError("enough")

    talk = llm.conversation(logits=fails)
    for _ in range(2):
        with pytest.raises(KeyError, match="enough"):
            talk.prompt(PROMPT).generate()
    assert len(talk.ids) == 9  # no token was chosen
    with pytest.raises(ValueError):
        llm.generate(PROMPT, logits=lambda logits, ids: np.zeros(5))


def test_templates(llm):
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = lambda x: json.dumps(x, ensure_ascii=False)
    jinja = environment.from_string(TEMPLATE)
    tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    for given in ({}, {"tools": tools}, {"add_generation_prompt": False}, {"more": "more"}):
        want = jinja.render(messages=CHAT, **{"add_generation_prompt": True, **given})
        assert llm.apply_chat_template(CHAT, **given) == want
        ids = llm.apply_chat_template(CHAT, tokenize=True, **given)
        assert llm.tokenizer.decode(ids) == want and ids.count(259) == 2  # the user's is text
    assert llm.chat(CHAT, max_new_tokens=3, sampling="greedy").ids == reference(
        llm.apply_chat_template(CHAT, tokenize=True), 3
    )
    assert llm.generate(CHAT, max_new_tokens=3) == llm.chat(CHAT, max_new_tokens=3, temperature=0)
    with_tools = llm.apply_chat_template(CHAT, tokenize=True, tools=tools, more="x")
    given = {"tools": tools, "template_arguments": {"more": "x", "prompt": 1, "stream": 2}}
    answer = llm.chat(CHAT, max_new_tokens=2, sampling="greedy", **given)
    assert answer.ids == reference(with_tools, 2)


def test_nul_in_a_message(llm, tmp_path):
    """NUL is text like any other."""
    talk = llm.conversation(ignore_stop_ids=True, sampling="greedy")
    answer = talk.send([{"role": "user", "content": "a\0b"}], max_new_tokens=3)
    assert answer.ids == reference(llm.apply_chat_template([{"role": "user", "content": "a\0b"}], tokenize=True), 3)
    assert "a\0b" in llm.apply_chat_template([{"role": "user", "content": "a\0b"}])
    talk.save(tmp_path / "talk")
    again = llm.conversation().load(tmp_path / "talk")
    assert again.messages == talk.messages and again.undo().messages == []


def test_default_system_message(folder, tmp_path):
    """The default system message precedes messages that do not begin with a system message, in any JSON notation."""
    program = clave.load(folder / "m.clv")
    program.metadata = {"llm": {"chat_template": TEMPLATE, "max_context": 200, "default_system": "D"}}
    program.save(tmp_path / "m.clv")
    llm = LLM(tmp_path / "m.clv", "cpu")
    user, system = (
        {"role": "user", "content": ["system"], "role2": "system"},
        {"content": {"role": "user"}, "role": "system"},
    )
    for messages, is_put in (([user], 1), ([user, system], 1), ([system, user], 0), ([], 1)):
        text = llm.apply_chat_template(messages)
        assert text.startswith("<|im_start|>system:D<|im_end|>") == is_put
        assert text.count("<|im_start|>") == 1 + len(messages) + is_put


def test_conversations(llm, tmp_path):
    talk = llm.conversation(ignore_stop_ids=True, sampling="greedy")
    first = talk.send("hi", max_new_tokens=4)
    text = llm.apply_chat_template([{"role": "user", "content": "hi"}], tokenize=True)
    assert first.ids == reference(text, 4) and talk.ids == text + first.ids
    assert talk.messages == [{"role": "user", "content": "hi"}, {"role": "assistant", "content": str(first)}]
    talk.save(tmp_path / "talk")
    second = talk.send([{"role": "user", "content": "so"}], max_new_tokens=4)
    assert talk.stats["decode_tokens"] == 6 and talk.answered_by in ("cpu", "opencl")
    for other in (
        talk.fork().undo(),
        llm.conversation(ignore_stop_ids=True, sampling="greedy").load(tmp_path / "talk"),
    ):
        assert other.ids == text + first.ids
        assert other.send({"role": "user", "content": "so"}, max_new_tokens=4) == second
        assert other.messages == talk.messages and len(talk.messages) == 4
    assert talk.undo(question=False).generate(max_new_tokens=4) == second
    assert "".join(talk.rewind(len(text)).generate(max_new_tokens=4, stream=True)) == first
    assert talk.reset().messages == [] and talk.ids == []


def test_errors(llm, folder, tmp_path):
    for wrong, message in (
        (lambda: LLM(folder / "nowhere.clv"), "nowhere.clv"),
        (lambda: LLM(folder / "m.clv", "opencl:99"), "opencl:99"),
        (
            lambda: LLM(folder / "m.clv", max_context=201),
            "max_context: 201 exceeds the 200 tokens",
        ),
        (lambda: LLM(folder / "m.clv", max_context=0), "max_context: expected an integer from 1 to .*, got 0"),
        (
            lambda: LLM(folder / "m.clv", chat_template="vicuna"),
            "unknown chat template 'vicuna'; the built-in templates are ",
        ),
        (lambda: llm.generate([]), "the prompt is empty"),
        (lambda: llm.generate([-1]), "an id of the prompt: expected an integer from 0 to .*, got -1"),
        (lambda: llm.generate([300]), "id 300 at position 0 of the prompt"),
        (lambda: llm.generate("x" * 300), "no space for an answer in the context of 200 tokens: 102 too many"),
        (lambda: llm.generate("x", max_new_tokens=0), "max_new_tokens: expected an integer from 1 to .*, got 0"),
        (lambda: llm.generate("x", top_k=-1), "top_k: expected an integer from 0 to .*, got -1"),
        (lambda: llm.generate("x", top_p=2), "top_p: expected a number from 0 to 1, got 2"),
        (lambda: llm.generate("x", stop=[""]), "stop text 0 is empty"),
        (lambda: llm.generate("x", stop="a\0b"), "holds a NUL"),
        (
            lambda: llm.generate("x", logit_bias={-1: 1.0}),
            "an id of logit_bias: expected an integer from 0 to .*, got -1",
        ),
        (
            lambda: llm.generate("x", logprobs=301),
            "expected at most as many tokens as the vocabulary has: 301 requested of 300",
        ),
        (lambda: llm.generate([1, 2.5]), "an id of the prompt: expected an integer from 0 to .*, got 2.5"),
        (lambda: llm.generate(5), "prompt: expected a text, ids or messages, got 5"),
        (lambda: llm.generate({"role": "user", "content": ""}), "messages: expected a list of dicts"),
        (lambda: llm.apply_chat_template({"role": "user", "content": ""}), "messages: expected a list of dicts"),
        (lambda: llm.apply_chat_template("hi"), "messages: expected a list of dicts .* got 'hi'"),
        (lambda: llm.apply_chat_template([("user", "hi")]), "messages: expected a list of dicts"),
        (lambda: llm.apply_chat_template(None), "messages: expected a list of dicts .* got 'None'"),
        (lambda: llm.chat([{"role": {1}, "content": ""}]), "of a chat must be JSON: "),
        (lambda: llm.conversation().generate(), "the conversation has no prompt"),
        (lambda: llm.conversation().rewind(1), "cannot rewind to 1 tokens: the conversation has 0"),
        (lambda: llm.conversation().rewind(-1), "count: expected an integer from 0 to .*, got -1"),
        (lambda: llm.conversation().undo(), "the chat has no message to remove"),
        (lambda: llm.conversation().load(tmp_path / "none"), "none"),
    ):
        with pytest.raises(Error, match=message) as e:
            wrong()
        assert "\n" not in str(e.value)
    for options in ({"temprature": 1}, {"nothing": 1}):
        with pytest.raises(TypeError, match=r"no option 'temprature'; did you mean 'temperature'|no option 'nothing'$"):
            llm.generate("x", **options)


def test_objects_keep_what_they_need(folder):
    talk = LLM(folder / "m.clv", "cpu").conversation(temperature=1, logit_bias={65: 2.0}, stop=["\n"]).fork()
    tokenizer = LLM(folder / "m.clv", "cpu").tokenizer
    answer = talk.prompt(PROMPT).generate(max_new_tokens=3, logprobs=0)
    assert talk.ids[5:] == answer.ids and len(answer.logprobs) == len(answer.ids)
    assert tokenizer.decode(tokenizer.encode("a")) == "a"
