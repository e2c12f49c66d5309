"""Every option of language models with every kind of value, in Python and on the command line; other names."""

import math
import os
import subprocess

import _models
import numpy as np
import pytest

from clave import LLM, Error, Sampling
from clave.sampling import ELSEWHERE

NAN, INF = math.nan, math.inf
NOT_NUMBERS = (NAN, INF, -INF, True, np.True_, "1", b"1", None, [1], 1j, object())
# Option: values that are accepted; values out of its range.
INTEGERS = {
    "top_k": ([0, 1, 2.0, np.int64(3), np.float32(4), 2**32 - 1], [-1, 2**32, 2.5, 1e300]),
    "penalty_window": ([0, 7.0, 2**32 - 1], [-1, 0.5, 2**32]),
    "prefill_chunk": ([0, 1, 512.0], [-1, 1.5, 2**32]),
    "seed": ([0, 2**64 - 1, 3.0], [-1, 2**64, 0.1]),
}
NUMBERS = {
    "temperature": ([0, 0.5, 2, np.float32(0.25)], [-0.1, 1e39]),
    "top_p": ([0, 0.5, 1], [-0.1, 1.1]),
    "min_p": ([0, 0.5, 1], [-0.1, 1.1]),
    "repetition_penalty": ([0, 1.5], [-1, 1e39]),
    "presence_penalty": ([-2, 0, 2], [-1e39, 1e39]),
    "frequency_penalty": ([-2, 0, 2], [-1e39, 1e39]),
}
LIMITS = {"max_new_tokens": ([1, 2.0, np.int32(3), None], [0, -1, 2.5]), "logprobs": ([0, 2.0, None], [-1, 0.5])}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("options")
    said = {"chat_template": "{% for m in messages %}[{{ m.content }}]{% endfor %}", "bos": 1}
    _models.export(folder / "m.clv", tokenizer=_models.byte_ranks(folder / "bytes.tiktoken"), llm=said)
    return folder


@pytest.fixture(scope="module")
def llm(folder):
    return LLM(folder / "m.clv", "cpu")


@pytest.mark.parametrize("name", [*INTEGERS, *NUMBERS])
def test_sampling_options(name):
    good, bad = (INTEGERS | NUMBERS)[name]
    for value in good:
        assert getattr(Sampling(**{name: value}), name) == value
    for value in (*bad, *NOT_NUMBERS):
        with pytest.raises(Error, match=rf"^{name}: expected .*, got "):
            Sampling(**{name: value})


@pytest.mark.parametrize("name", LIMITS)
def test_limits(llm, name):
    """Limits apply in every call that makes an answer; a stream checks them when it is created."""
    talk = llm.conversation()
    calls = (
        lambda v: llm.generate("A", **{"max_new_tokens": 2, name: v}),
        lambda v: llm.generate("A", stream=True, **{"max_new_tokens": 2, name: v}),
        lambda v: llm.generate_each(["A"], **{"max_new_tokens": 2, name: v}),
        lambda v: llm.chat("A", **{"max_new_tokens": 2, name: v}),
        lambda v: llm.chat_each(["A"], **{"max_new_tokens": 2, name: v}),
        lambda v: talk.reset().prompt("A").generate(**{"max_new_tokens": 2, name: v}),
        lambda v: talk.reset().send("A", **{"max_new_tokens": 2, name: v}),
    )
    good, bad = LIMITS[name]
    for call in calls:
        for value in (*bad, *(v for v in NOT_NUMBERS if v is not None)):
            with pytest.raises(Error, match=rf"^{name}: expected an integer from .*, got "):
                call(value)
        for value in good:
            answer = call(value)
            if name == "max_new_tokens" and value is not None and isinstance(answer, str):
                assert len(answer.ids) <= value


def test_other_options(llm, folder):
    for value in (0, 1.5, NAN, True, "8", -1, 2**32, None):
        if value is None:
            assert LLM(folder / "m.clv", "cpu", max_context=value).max_context == _models.CONTEXT
            continue
        with pytest.raises(Error, match=r"^max_context: expected an integer from 1 to"):
            LLM(folder / "m.clv", "cpu", max_context=value)
    assert LLM(folder / "m.clv", "cpu", max_context=8.0).max_context == 8
    for option, values in {
        "stop": (5, ["a", 5], {"a": 1}, b"a", [None], "a\0"),
        "logit_bias": (5, [1], {"a": 1.0}, {-1: 1.0}, {1: NAN}, {1: INF}, {1: "x"}, {1.5: 1.0}, {True: 1.0}),
        "ignore_stop_ids": (2, "yes", None),
        "logits": (5, "f"),
        "sampling": (5, "hot", True, ["model"]),
    }.items():
        for value in values:
            with pytest.raises(Error, match=rf"(^|an id of ){option}|stop text"):
                llm.generate("A", max_new_tokens=1, **{option: value})
    for stop in ((), [], "a", ["a"], ("a", "bc", "def")):
        llm.generate("A", max_new_tokens=1, stop=stop)
    for bias in ({}, {1: -INF}, {np.int64(1): np.float32(2), 2.0: 3}):
        llm.generate("A", max_new_tokens=1, logit_bias=bias)
    for prompts in ("AB", {"a": 1}, 5):
        with pytest.raises(Error, match="prompts: expected a list"):
            llm.generate_each(prompts)
    for prompts in ([], ["A"], ["A", "B"], ["A"] * 5):
        assert len(llm.generate_each(prompts, max_new_tokens=1)) == len(llm.chat_each(prompts, max_new_tokens=1))


@pytest.mark.parametrize("name", ELSEWHERE)
def test_names_of_others(llm, folder, name):
    """All calls with options by name suggest clave's name."""
    ours = ELSEWHERE[name]
    for call in (llm.generate, llm.chat):
        with pytest.raises(TypeError, match=f"no option '{name}'; (did you mean|clave.LLM accepts) '{ours}'"):
            call("A", **{name: 5})
    with pytest.raises(Error, match=f"no option '{name}'"):
        llm.conversation(**{name: 5})


def test_names_that_are_misspelt(llm, folder):
    for name, ours in {"temprature": "temperature", "max_new_token": "max_new_tokens", "topk": "top_k"}.items():
        with pytest.raises(Error, match=f"no option '{name}'; did you mean '{ours}'"):
            llm.generate("A", **{name: 1})
    with pytest.raises(Error, match="no option 'max_tokens'; did you mean 'max_new_tokens'"):
        llm.conversation().prompt("A").generate(max_tokens=5)
    with pytest.raises(Error, match="no option 'max_tokens'; did you mean 'max_new_tokens'"):
        llm.conversation().send("A", max_tokens=5)
    with pytest.raises(Error, match="no option 'num_ctx'; did you mean 'max_context'"):
        LLM(folder / "m.clv", num_ctx=5)
    with pytest.raises(Error, match=r"no option 'xyzzy'$"):
        llm.generate("A", xyzzy=5)


# Flag: values that are accepted, and values that are refused.
FLAGS = {
    "--max-new-tokens": (["1", "2"], ["0", "-1", "2.5", "nan", "", "1e3", "2x"]),
    "--max-context": (["8"], ["1", "0", "-5", "8.5", "nan", "65"]),
    "--temperature": (["0", "0.5", "1e-3"], ["-1", "nan", "inf", "x", "1,5", ""]),
    "--top-k": (["0", "5"], ["-1", "1.5", "nan", "99999999999"]),
    "--top-p": (["0", "0.5", "1"], ["-0.1", "1.1", "nan"]),
    "--min-p": (["0", "0.5", "1"], ["-0.1", "1.1", "nan"]),
    "--seed": (["0", "9223372036854775807"], ["-1", "0.5", "9223372036854775808"]),
    "--repetition-penalty": (["0", "1.5"], ["-1", "nan", "inf"]),
    "--presence-penalty": (["-2", "2"], ["nan", "inf", "x"]),
    "--frequency-penalty": (["-2", "2"], ["nan", "inf", "x"]),
    "--penalty-window": (["0", "5"], ["-1", "0.5"]),
    "--prefill-chunk": (["1", "64"], ["0", "-1", "1.5"]),
    "--threads": (["1", "2"], ["0", "-1", "1.5", "nan"]),
    "--top-logprobs": ([], ["-1", "1.5", "1001"]),
    "--logit-bias": (["5=1", "5=-inf"], ["5", "x=1", "5=", "5=nan", "5=inf", "-1=2", "5.5=1"]),
    "--bos": (["auto", "yes", "no"], ["maybe", ""]),
    "--sampling": (["greedy"], ["model", "hot", ""]),
}


def run(build, folder, *args):
    command = [str(build / "clave"), "generate", "m.clv", *args]
    env = os.environ | {"CLAVE_DEVICE": "cpu"}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, timeout=60, check=False)


@pytest.mark.parametrize("flag", FLAGS)
def test_flags(build, folder, flag):
    good, bad = FLAGS[flag]
    limit = [] if flag == "--max-new-tokens" else ["-n", "1"]
    for value in good:
        p = run(build, folder, "--prompt", "A", *limit, flag, value)
        assert p.returncode == 0, (value, p.stderr)
    for value in bad:
        p = run(build, folder, "--prompt", "A", *limit, flag, value)
        assert p.returncode in (1, 2) and p.stdout == b"" and p.stderr.startswith(b"clave: "), (value, p)
        words = "context" if flag == "--max-context" else "sampling" if value == "model" else flag
        assert words in p.stderr.decode(), (value, p.stderr)


@pytest.mark.parametrize(
    "flag, ours",
    [
        ("--max-tokens", "--max-new-tokens"),
        ("--n-predict", "--max-new-tokens"),
        ("--num-predict", "--max-new-tokens"),
        ("--repeat-penalty", "--repetition-penalty"),
        ("--ctx-size", "--max-context"),
        ("--num-ctx", "--max-context"),
        ("--temp", "--temperature"),
        ("--stop-sequences", "--stop"),
        ("--ignore-eos", "--ignore-stop-ids"),
        ("--temprature", "--temperature"),
    ],
)
def test_flags_of_others(build, folder, flag, ours):
    p = run(build, folder, "--prompt", "A", flag, "1")
    assert p.returncode == 2 and f"did you mean {ours}?".encode() in p.stderr, p.stderr


def test_what_a_model_is_made_of(folder):
    """Invalid paths and templates are errors that name the argument; a NUL does not truncate them."""
    file = folder / "m.clv"
    for value in (None, 3, b"m.clv", "a\0b", ["m.clv"]):
        with pytest.raises(Error, match=r"^path: expected"):
            LLM(value, "cpu")
        for name in ("tokenizer", "chat_template") if value is not None else ():
            with pytest.raises(Error, match=rf"^{name}: expected"):
                LLM(file, "cpu", **{name: value})
    with pytest.raises(Error, match=r"^device: expected"):
        LLM(file, 3)


def test_prompts_that_are_none(llm):
    for prompt in (None, 3, b"ROMEO:", bytearray(b"A"), object()):
        with pytest.raises(Error, match=r"^prompt: expected a text, ids or messages"):
            llm.generate(prompt, max_new_tokens=1)
    with pytest.raises(Error, match=r"^an id of the prompt: expected an integer from 0 to .*, got True"):
        llm.generate([True, 5], max_new_tokens=1)
    with pytest.raises(Error, match=r"^stream: expected True or False, got 'x'"):
        llm.generate("A", stream="x")


def test_representations(llm, folder):
    assert repr(llm).startswith(f"<clave.LLM {folder / 'm.clv'}, context ") and "cpu" in repr(llm)
    assert repr(llm.conversation()) == f"<clave.Conversation of {llm!r}>"
