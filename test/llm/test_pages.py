"""The memory of conversations: pages that they share, or separate caches that grow with the text."""

import json
import struct
import threading

import pytest
import torch
from _llm import Device, Llm, Talk
from safetensors.torch import load_file, save_file

import clave
from clave import Error
from clave.llm import KVCache

pytestmark = pytest.mark.by_turn(15)

DEVICES = pytest.mark.parametrize("device", ["cpu", "opencl"])
ROWS = 32  # rows of a page
PROMPT = [17 * i % 1000 for i in range(230)]


@pytest.fixture(scope="module")
def tinylm(root):
    return root / "examples/tinylm/tinylm.clv"


class Caches(torch.nn.Module):
    """Two layers of attention. kind: the property for which it cannot have pages."""

    def __init__(self, kind):
        super().__init__()
        generator = torch.Generator().manual_seed(5)
        self.kind = kind
        self.table = torch.nn.Parameter(torch.randn(1000, 8, generator=generator))
        self.layers = torch.nn.ModuleList(KVCache(1, 256 if kind == "unequal" and i else 512, 8) for i in range(2))

    def forward(self, tokens, position):
        first = int(self.kind == "shifted")
        x = self.table[tokens] * torch.cos(position + torch.arange(first, tokens.shape[1] + first))[None, :, None]
        x = x[:, None] * (1 + 0 * position) if self.kind == "position" else x[:, None]
        for cache in self.layers:
            x = cache(x, x, x, position)
        return (x[:, 0, -1] @ self.table.T) * 9


def exported(kind, folder):
    length = torch.export.Dim("length", min=1, max=256 if kind == "unequal" else 512)
    example = (torch.ones(1, 3, dtype=torch.int64), torch.tensor(0))
    clave.export(Caches(kind).eval(), example, dynamic_shapes=({1: length}, None)).save(folder / "own.clv")
    return folder / "own.clv"


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    return exported("position", tmp_path_factory.mktemp("own"))


def cache_rows(talk, path):
    """Returns the rows of the conversation's caches, by its file."""
    talk.save(path)
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
    rows = {t["shape"][2] for name, t in header.items() if name.startswith("state.")}
    assert len(rows) == 1
    return rows.pop()


@pytest.mark.parametrize(("kind", "rows"), [("plain", ROWS), ("position", 0), ("shifted", 0), ("unequal", 0)])
def test_who_has_pages(kind, rows, tmp_path):
    assert Llm(exported(kind, tmp_path), Device("cpu")).info.page_rows == rows


def test_python_says_who_has_pages(tinylm):
    assert clave.LLM(tinylm, "cpu").page_rows == ROWS


@DEVICES
def test_as_likely_as_in_torch(device, tmp_path):
    """Tokens are in the sixth to the eighth page, after a prompt in pieces that end within pages."""
    model, n = Caches("plain").eval(), 165
    with torch.no_grad():
        logits = [model(torch.tensor([PROMPT[:n]]), torch.tensor(0))]
        logits += [model(torch.tensor([[PROMPT[i]]]), torch.tensor(i)) for i in range(n, len(PROMPT) - 1)]
    logprobs = torch.cat(logits).double().log_softmax(-1)
    want = logprobs[range(len(logprobs)), PROMPT[n:]].tolist()
    llm = Llm(exported("plain", tmp_path), Device(device))
    assert llm.info.page_rows == ROWS
    for chunk in (0, 50, 7):
        talk = Talk(llm, chunk=chunk).prompt(PROMPT[:n])
        talk.next()
        assert talk.rewind(n).score(PROMPT[n:]) == pytest.approx(want, abs=1e-3)


@pytest.mark.parametrize("prompt", [[], PROMPT])
def test_a_file_without_rows(prompt, tinylm, tmp_path):
    """Before a run, each file has a row of zeros, regardless of the previous contents of pages and memory."""
    llm = Llm(tinylm, Device("cpu"))
    used = Talk(llm).prompt([5])
    used.next()
    for i in range(3):
        used.save(tmp_path / "used")  # frees memory of the same sizes for reuse
        talk = Talk(llm)
        if prompt:
            talk.prompt(prompt)
        talk.save(tmp_path / f"{i}")
        state = [t for name, t in load_file(tmp_path / f"{i}").items() if name.startswith("state.")]
        assert state and all(t.shape[2] == 1 and not t.any() for t in state)
        assert (tmp_path / "0").read_bytes() == (tmp_path / f"{i}").read_bytes()


def test_who_answered_is_of_the_conversation(tinylm):
    """Other runs in the pool's session do not change the device that a conversation reports."""
    llm = Llm(tinylm, Device("cpu"))
    talk, other = Talk(llm).prompt([5]), Talk(llm).prompt([6])
    talk.next()
    assert talk.answered_by() == talk.fork().answered_by() == b"cpu" and other.answered_by() is None
    other.next()
    assert other.answered_by() == b"cpu"


@DEVICES
def test_forks_share_what_they_have_in_common(device, tinylm, tmp_path):
    """Each fork continues separately when others write, rewind or end."""
    llm = Llm(tinylm, Device(device))
    new = lambda ids: Talk(llm, ignore_stop_ids=True).prompt(ids)
    texts = [[i + 1, 2 * i + 3] for i in range(5)]
    want = [new(PROMPT + text).take(40)[0] for text in texts]
    first = Talk(llm, ignore_stop_ids=True).prompt(PROMPT)
    first.next()
    forks = [first.fork() for _ in texts]
    first.rewind(100).prompt([5, 6, 7]).take(3)
    for fork, text, ids in zip(forks, texts, want, strict=True):
        assert fork.rewind(len(PROMPT)).prompt(text).take(20)[0] == ids[:20]
    forks[1].fork().take(5)
    forks[2].reset().prompt([9]).take(9)
    for i in (4, 0, 1, 3):
        assert forks[i].take(20)[0] == want[i][20:]
    forks[3].save(tmp_path / "fork")
    assert cache_rows(forks[3], tmp_path / "fork") == len(PROMPT) + 2 + 39  # the last token has not run
    on = forks[3].take(10)[0]
    del first, forks
    again = Talk(llm, ignore_stop_ids=True).restore(tmp_path / "fork")
    assert again.take(10)[0] == on
    again.rewind(len(PROMPT) + 2)
    assert again.take(40)[0] == want[3] == again.rewind(len(PROMPT) + 2).fork().take(40)[0]


def test_forks_take_little_memory(tinylm):
    """400 tokens are 0.4 MB: 40 forks fit where 40 conversations do not."""
    llm, budget = Llm(tinylm, Device("cpu")), 12 << 20
    first = Talk(llm, budget=budget).prompt((PROMPT * 2)[:400])
    first.next()
    forks = [first.fork() for _ in range(40)]
    for i, fork in enumerate(forks):
        fork.prompt([i]).take(1)
    del forks
    more = []
    with pytest.raises(Error, match=r"needs .* MB on .*, which has 12.0"):
        for _ in range(40):
            more.append(Talk(llm, budget=budget).prompt((PROMPT * 2)[:400]))
            more[-1].next()
    assert len(more) > 5 and first.take(1)
    with pytest.raises(Error, match=r"which has 0.0"):
        Talk(llm, budget=1000).prompt([1]).take(1)  # impossible within the memory of the others
    more.clear()
    Talk(llm, budget=budget).prompt(PROMPT).take(3)


@DEVICES
def test_many_conversations_in_one_run(device, tinylm):
    """Prompts have all lengths, and separate samplers and ends; some conversations join later."""
    llm = Llm(tinylm, Device(device))
    prompts = [PROMPT[i : i + n] for i, n in enumerate((1, 40, 3, 200, 64, 7, 33, 2, 120))]
    options = [{"repetition_penalty": 1.3} if i % 3 == 2 else {} for i in range(len(prompts))]
    new = lambda i: Talk(llm, ignore_stop_ids=True, chunk=(0, 16)[i % 2], **options[i]).prompt(prompts[i])
    alone = [new(i) for i in range(len(prompts))]
    want = [talk.take(20)[0] for talk in alone]
    talks = [new(i) for i in range(5)]
    got = [[] for _ in prompts]
    for step in range(25):
        if step == 5:
            talks += [new(i) for i in range(5, len(prompts))]
        for ids, (token, _, _) in zip(got, Talk.next_each(talks), strict=False):
            ids.append(token)
    assert [ids[:20] for ids in got] == want
    assert Talk.next_each([]) == []
    stats = talks[0].stats()
    assert stats.prompt_tokens == 1 and stats.decode_tokens == 24


def test_conversations_of_their_own_run_one_by_one(own, tinylm):
    own, paged = Llm(own, Device("cpu")), Llm(tinylm, Device("cpu"))
    want = [Talk(own, ignore_stop_ids=True).prompt(PROMPT[:n]).take(8)[0] for n in (4, 50)]
    talks = [Talk(own, ignore_stop_ids=True).prompt(PROMPT[:n]) for n in (4, 50)]
    got = [Talk.next_each(talks) for _ in range(8)]
    assert [[step[i][0] for step in got] for i in range(2)] == want
    one, two = Talk(paged).prompt([1]), Talk(paged, budget=1 << 30).prompt([1])  # two sessions
    assert len({token for token, _, _ in Talk.next_each([one, two, Talk(paged).prompt([1])])}) == 1


def test_bad_lists(own, tinylm):
    llm = Llm(tinylm, Device("cpu"))
    one, two = Talk(llm).prompt([1]), Talk(llm).prompt([2])
    other = Talk(Llm(own, Device("cpu"))).prompt([1])
    for talks, what in (
        ([one, two, one], "conversations 0 and 2 are the same conversation"),
        ([one, other], "conversation 1 belongs to another model than the first"),
        ([one, Talk(llm)], "the conversation has no prompt; conversation 1"),
    ):
        with pytest.raises(Error, match=what):
            Talk.next_each(talks)
    assert len(one.ids()) == 1 and Talk.next_each([one, two])


def test_one_of_many_fails(tinylm):
    """Only the failed conversation lacks its token; all conversations continue."""
    llm, good = Llm(tinylm, Device("cpu")), [True]
    change = lambda logits, ids, raw: good[0]
    talks = [Talk(llm).prompt([1]), Talk(llm, change=change).prompt([2]), Talk(llm).prompt([3])]
    good[0] = False
    with pytest.raises(Error):
        Talk.next_each(talks)
    assert [len(talk.ids()) for talk in talks] == [2, 1, 1]
    good[0] = True
    Talk.next_each(talks)
    assert [len(talk.ids()) for talk in talks] == [3, 2, 2]


def test_threads_share_a_pool(tinylm):
    """Conversations of a model run in one thread each, and grow the pool concurrently."""
    llm = Llm(tinylm, Device("cpu"))
    want = [Talk(llm, ignore_stop_ids=True).prompt(PROMPT[i:]).take(60)[0] for i in range(4)]
    got = [None] * 4

    def run(i):
        talk = Talk(llm, ignore_stop_ids=True).prompt(PROMPT[i:])
        got[i] = talk.take(30)[0] + talk.fork().take(30)[0]

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == want


@DEVICES
def test_python_generates_each(device, tinylm):
    llm = clave.LLM(tinylm, device)
    prompts = ["ROMEO:", "To be, or not", [1, 2, 3]]
    want = [llm.generate(p, max_new_tokens=n, logprobs=2) for p, n in zip(prompts, (12, 12, 12), strict=True)]
    got = llm.generate_each(prompts, max_new_tokens=12, logprobs=2)
    assert got == want and [a.ids for a in got] == [a.ids for a in want]
    assert [a.stop_reason for a in got] == [a.stop_reason for a in want]
    assert [[t.id for t in a.logprobs] for a in got] == [a.ids for a in got]
    assert llm.generate_each([]) == []
    stop = want[0][3:6]
    assert llm.generate_each(prompts[:1], max_new_tokens=12, stop=stop)[0] == want[0][: want[0].index(stop)]

    def raises(logits, ids):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        llm.generate_each(prompts, logits=raises)


# ---- separate caches


@DEVICES
def test_caches_grow_with_the_text(device, own, tmp_path):
    """Caches are as long as they must be, through forks and files."""
    llm = Llm(own, Device(device))
    want = Talk(llm, ignore_stop_ids=True).prompt(PROMPT).take(80)[0]
    talk = Talk(llm, ignore_stop_ids=True).prompt(PROMPT)
    assert talk.take(10)[0] == want[:10] and cache_rows(talk, tmp_path / "short") == 256
    fork = talk.fork()
    assert fork.take(70)[0] == talk.take(70)[0] == want[10:]
    assert cache_rows(talk, tmp_path / "long") == cache_rows(fork, tmp_path / "fork") == 512
    assert fork.rewind(240).take(60)[0] == want[10:70] and cache_rows(fork, tmp_path / "fork") == 512
    for start, n in (("short", 10), ("long", 80), ("short", 10)):
        assert talk.restore(tmp_path / start).ids() == PROMPT + want[:n]
        assert n > 10 or talk.take(3)[0] == want[10:13]
    assert cache_rows(talk.reset(), tmp_path / "empty") == 256
    assert talk.prompt(PROMPT).take(30)[0] == want[:30]


@pytest.mark.parametrize("kind", ["own", "tinylm"])
def test_a_file_whose_caches_are_too_short_is_refused(kind, request, tmp_path):
    talk = Talk(Llm(request.getfixturevalue(kind), Device("cpu"))).prompt(list(range(300)))
    talk.take(1)
    talk.save(tmp_path / "good")
    saved = load_file(tmp_path / "good")
    cut = {name: t[:, :, :256].contiguous() if name.startswith("state.") else t for name, t in saved.items()}
    other = saved | {"state.0": saved["state.0"][:, :, :299].contiguous()}
    longer = {name: torch.cat([t, t], 2) if name.startswith("state.") else t for name, t in saved.items()}
    for bad, what in (
        (cut, "300 ids were run, but the caches have a capacity of 256"),
        (other, "differs in dtype or shape"),
        (longer, "differs in dtype or shape"),
    ):
        save_file(bad, tmp_path / "bad")
        with pytest.raises(Error, match=what):
            talk.restore(tmp_path / "bad")
    assert len(talk.ids()) == 301
