"""Rewinding a conversation: the ids are those of a fresh one with the same text, on both devices, or it is an error."""

import _models
import pytest
import torch
from _llm import CONTEXT_FULL, Device, Llm, Talk
from torch import nn

import clave
from clave import Cancelled, Error, Tokenizer
from clave.ops import sdpa_with_kv_cache

PROMPT = [5, 6, 7, 250, 9, 1, 1, 2]


class Attends(nn.Module):
    """A layer of attention, with a window or without."""

    def __init__(self, rows, window=None):
        super().__init__()
        torch.manual_seed(5)
        self.window = window
        self.embed, self.out = nn.Embedding(_models.VOCAB, 16), nn.Linear(16, _models.VOCAB)
        for name in ("q", "k", "v"):
            setattr(self, name, nn.Linear(16, 16))
        self.register_buffer("keys", torch.zeros(1, 2, rows, 8))
        self.register_buffer("values", torch.zeros(1, 2, rows, 8))

    def forward(self, tokens, position):
        x = 3 * self.embed(tokens) + torch.sin(0.7 * (position + torch.arange(tokens.shape[1])))[None, :, None]
        q, k, v = (m(x).unflatten(2, (2, 8)).transpose(1, 2) for m in (self.q, self.k, self.v))
        y = sdpa_with_kv_cache(q, k, v, self.keys, self.values, position, window=self.window)
        return self.out(x + 4 * y.transpose(1, 2).flatten(2))[:, -1]


class Recurrent(nn.Module):
    """A model whose state depends on its previous state."""

    def __init__(self):
        super().__init__()
        self.register_buffer("sums", torch.zeros(1, _models.VOCAB))

    def forward(self, tokens, position):
        one = nn.functional.one_hot(tokens, _models.VOCAB).float().sum(1)
        self.sums.copy_(0.9 * self.sums + one.roll(3, 1))
        return self.sums + 0.01 * position


class FixedRow(_models.Next):
    """Writes a row, but not the row of the token's position."""

    def forward(self, tokens, position):
        self.seen.index_copy_(2, torch.zeros(1, dtype=torch.int64), tokens[:, -1:].reshape(1, 1, 1, 1).float())
        return self.table[self.seen[0, 0, 0, 0].long() % 97][None]


def export(path, model):
    shapes = ({1: torch.export.Dim("length", min=1, max=64)}, None)
    program = clave.export(model.eval(), _models.arguments(3), dynamic_shapes=shapes)
    program.metadata = {"llm": {"max_context": 64}}
    program.save(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rewind")
    _models.export(folder / "next.clv")
    export(folder / "attends.clv", Attends(64))
    export(folder / "ring.clv", Attends(16, window=6))
    export(folder / "recurrent.clv", Recurrent())
    export(folder / "fixed.clv", FixedRow())
    export(folder / "scans.clv", _models.Scans())
    _models.byte_tokenizer(folder / "tokenizer.json")
    program = clave.load(folder / "next.clv")
    program.metadata = {"llm": {"chat_template": "chatml", "max_context": 64}}
    return folder


@pytest.fixture(scope="module", params=["cpu", "opencl"])
def device(request):
    return Device(request.param)


def fresh(llm, ids, n=6, **options):
    return Talk(llm, **options).prompt(ids).take(n)[0]


@pytest.mark.parametrize("name", ["next", "attends"])
def test_a_second_question(folder, device, name, tmp_path):
    """A question can be replaced, also in a forked or saved conversation and after several rewinds."""
    llm = Llm(folder / f"{name}.clv", device)
    talk = Talk(llm, chunk=5).prompt(PROMPT)
    talk.take(20)
    talk.save(tmp_path / "talk")
    for other in (talk.fork(), Talk(llm).restore(tmp_path / "talk"), talk):
        for keep in (13, 8, 3, 1, 0):
            kept = other.ids()[:keep]
            assert other.rewind(keep).ids() == kept
            assert other.prompt([77, 3]).take(6)[0] == fresh(llm, [*kept, 77, 3])
            assert other.rewind(keep).prompt([4]).take(2)[0] == fresh(llm, [*kept, 4], 2)


@pytest.mark.parametrize("name", ["next", "attends"])
def test_going_on_without_a_prompt(folder, device, name):
    """The last id that stays is run again for its logits, unless they are still present."""
    llm = Llm(folder / f"{name}.clv", device)
    talk = Talk(llm).prompt(PROMPT)
    want = talk.take(12)[0]
    for keep in (19, 18, 9, 8):
        assert talk.rewind(keep).take(20 - keep)[0] == want[keep - 8 :]
    assert talk.rewind(20).take(1) == talk.rewind(20).take(1)
    kept = talk.ids()[:10]  # more ids than those whose logits are kept
    n = len(talk.ids()) - 1
    assert talk.rewind(10).prompt([3] * (n - 10)).take(1)[0] == fresh(llm, kept + [3] * (n - 10), 1)
    before = talk.stats()
    assert talk.rewind(len(talk.ids())).next()[2] == 0 and talk.stats().prompt_tokens == before.prompt_tokens


@pytest.mark.parametrize("name", ["next", "attends"])
def test_behind_what_was_scored(folder, device, name):
    llm = Llm(folder / f"{name}.clv", device)
    talk = Talk(llm)
    talk.score(PROMPT)
    assert talk.take(3)[0] == fresh(llm, PROMPT, 3)
    talk.rewind(5).score([7, 8])
    assert talk.fork().take(3)[0] == talk.take(3)[0] == fresh(llm, [*PROMPT[:5], 7, 8], 3)


def test_random_numbers_go_on(folder, device):
    """Another answer is possible; the same steps return the same ids again."""
    llm = Llm(folder / "attends.clv", device)
    talks = [Talk(llm, temperature=3, seed=5).prompt(PROMPT) for _ in range(2)]
    answers = [[talk.take(8)[0], talk.rewind(8).take(8)[0]] for talk in talks]
    assert answers[0] == answers[1] and answers[0][0] != answers[0][1]


def test_a_full_context(folder, device):
    talk = Talk(Llm(folder / "next.clv", device)).prompt(PROMPT)
    assert talk.take(100)[2] == CONTEXT_FULL
    assert talk.rewind(20).prompt([9]).take(100)[2] == CONTEXT_FULL


def test_a_ring(folder, device):
    """16 rows, of which a token sees 6: rewinding is possible until one of them is overwritten."""
    llm = Llm(folder / "ring.clv", device)
    talk = Talk(llm, chunk=4).prompt(PROMPT)
    talk.take(22)  # 30 ids, of which 29 were run: rows of 13 and later remain
    for keep in (29, 22, 19):
        kept = talk.ids()[:keep]
        fork = talk.fork().rewind(keep)
        assert fork.prompt([7]).take(3)[0] == fresh(llm, [*kept, 7], 3)
        with pytest.raises(Error, match="state keys cannot be rewound to 18 tokens: of "):
            fork.rewind(18)
        assert fork.rewind(keep).take(3)[0] == fresh(llm, kept, 3)
    with pytest.raises(Error, match="state keys cannot be rewound to 18 tokens: of 29 tokens, it stores the last 16"):
        talk.rewind(18)
    assert len(talk.ids()) == 30 and talk.take(2)[0] == fresh(llm, talk.ids()[:30], 2)
    assert talk.rewind(0).prompt(PROMPT).take(3)[0] == fresh(llm, PROMPT, 3)
    assert talk.rewind(5).take(3)[0] == fresh(llm, PROMPT[:5], 3)


@pytest.mark.parametrize("name, state", [("recurrent", "sums"), ("fixed", "seen"), ("scans", "before")])
def test_state_that_cannot_go_back(folder, device, name, state):
    llm = Llm(folder / f"{name}.clv", device)
    talk = Talk(llm, chunk=1).prompt(PROMPT)
    ids = PROMPT + talk.take(5)[0]
    with pytest.raises(Error, match=f"state {state} cannot be rewound, because it is not written token by token"):
        talk.rewind(11)
    assert talk.ids() == ids and talk.take(3)[0] == fresh(llm, PROMPT, 8, chunk=1)[5:]
    kept = talk.ids()[:15]  # the last one was not run yet
    assert talk.rewind(15).prompt([3]).take(2)[0] == fresh(llm, [*kept, 3], 2, chunk=1)
    assert talk.rewind(0).prompt(PROMPT).take(5)[0] == ids[8:]


@pytest.mark.parametrize("name", ["attends", "ring", "scans"])
def test_behind_a_run_that_was_cancelled(folder, device, name):
    """Changes of the state by a cancelled run do not count, wherever it was cancelled."""
    llm = Llm(folder / f"{name}.clv", device)
    left = [1000]

    def cancel():
        left[0] -= 1
        return left[0] == 0

    prompt = PROMPT * 4
    want, cancelled = fresh(llm, prompt, 8), 0
    for n in range(1, 70):
        talk, left[0] = Talk(llm, chunk=15, cancel=cancel).prompt(prompt), n
        got = []
        while len(got) < 8:
            try:
                got.append(talk.next()[0])
            except Error as e:
                assert "cancelled" in str(e)
                assert isinstance(e, Cancelled)
                cancelled += 1
        assert got == want
    assert cancelled > 10


def test_more_than_there_is(folder):
    talk = Talk(Llm(folder / "next.clv", Device("cpu"))).prompt(PROMPT)
    with pytest.raises(Error, match="cannot rewind to 9 tokens: the conversation has 8"):
        talk.rewind(9)
    with pytest.raises(Error, match="the chat has no message to remove"):
        talk.undo()


# ---------------------------------------------------------------- chats


def chat(folder, tmp_path, name="next", template="chatml", **llm):
    program = clave.load(folder / f"{name}.clv")
    program.metadata = {"llm": {"chat_template": template, "max_context": 1000 if name == "long" else 64, **llm}}
    program.save(tmp_path / "chat.clv")
    return Llm(tmp_path / "chat.clv", Device("cpu"), folder / "tokenizer.json")


SHORT = "{% for m in messages %}<s>{{ m.role[0] }}{{ m.content }}</s>{% endfor %}<s>a"


def spoken(folder, talk):
    return Tokenizer(folder / "tokenizer.json").decode(talk.ids())


def answer(folder, talk, text):
    return talk.prompt(Tokenizer(folder / "tokenizer.json").encode(text))


def test_undo(folder, tmp_path):
    llm = chat(folder, tmp_path, template=SHORT)
    talk = Talk(llm)
    for i in range(3):
        answer(folder, talk.prompt([("user", f"q{i}")]), f"A{i}")
    whole = spoken(folder, talk)
    assert talk.messages() == [m for i in range(3) for m in (("user", f"q{i}"), ("assistant", f"A{i}"))]
    talk.undo(question=False)
    assert spoken(folder, talk) == whole[:-2] and talk.messages()[-1] == ("user", "q2")
    assert spoken(folder, answer(folder, talk, "A2")) == whole
    talk.save(tmp_path / "talk")
    for other in (Talk(llm).restore(tmp_path / "talk"), talk.fork(), talk):
        assert len(other.messages()) == 6
        assert other.undo().messages() == [
            *(("user", "q0"), ("assistant", "A0")),
            *(("user", "q1"), ("assistant", "A1")),
        ]
        assert other.prompt([("user", "q2")]).ids() == answer(folder, other, "A2").ids()[:-2]
        assert spoken(folder, other) == whole
        assert other.undo().undo().undo().messages() == [] and other.ids() == []
        with pytest.raises(Error, match="the chat has no message to remove"):
            other.undo()
        assert spoken(folder, other.prompt([("user", "x")])) == "<s>ux</s><s>a"


def test_undo_where_the_state_cannot_go_back(folder, tmp_path):
    """The remaining text is run again."""
    llm = chat(folder, tmp_path, name="recurrent", template=SHORT)
    talk = Talk(llm, chunk=1).prompt([("user", "q")])
    first = talk.take(4)[0]
    ids = talk.ids()
    talk.prompt([("user", "r")]).take(4)
    talk.undo()
    assert talk.ids() == ids and talk.take(3)[0] == fresh(llm, ids, 3, chunk=1)
    assert talk.undo(question=False).take(4)[0] == first


def test_rewind_of_a_chat(folder, tmp_path):
    """A rewind within an answer keeps its beginning; within a question the conversation is no longer a chat."""
    talk = Talk(chat(folder, tmp_path, template=SHORT)).prompt([("user", "q")])
    answer(folder, talk, "abcd")
    n = len(talk.ids())
    answer(folder, talk.prompt([("user", "r")]), "e")
    talk.rewind(n - 2)
    assert talk.messages() == [("user", "q"), ("assistant", "ab")]
    talk.prompt([("user", "r")])
    assert spoken(folder, talk) == "<s>uq</s><s>aab</s><s>ur</s><s>a"
    assert talk.rewind(n + 1).messages() == []
    assert talk.rewind(0).messages() == []


def test_undo_of_a_rewritten_past(folder, tmp_path):
    """The conversation started again for the last question; without that question, it starts again once more."""
    template = "{{ messages | length }}{% for m in messages %}<s>{{ m.role[0] }}{{ m.content }}{% endfor %}<s>a"
    talk = Talk(chat(folder, tmp_path, template=template))
    for i in range(2):
        answer(folder, talk.prompt([("user", f"q{i}")]), f"A{i}")
    assert spoken(folder, talk) == "3<s>uq0<s>aA0<s>uq1<s>aA1"
    assert talk.undo().messages() == [("user", "q0"), ("assistant", "A0")]
    talk.prompt([("user", "x")])
    assert spoken(folder, talk) == "3<s>uq0<s>aA0<s>ux<s>a"


def test_a_restored_chat_goes_on(folder, tmp_path):
    """The file has the chat's messages, and the next question follows them."""
    llm = chat(folder, tmp_path, template=SHORT, default_system="S")
    talk = answer(folder, Talk(llm).prompt([("user", 'q"\n')]), "A")
    talk.save(tmp_path / "talk")
    again = Talk(llm).restore(tmp_path / "talk")
    assert again.messages() == talk.messages() == [("system", "S"), ("user", 'q"\n'), ("assistant", "A")]
    assert again.prompt([("user", "r")]).ids() == talk.prompt([("user", "r")]).ids()
    assert spoken(folder, again) == '<s>sS</s><s>uq"\n</s><s>aA</s><s>ur</s><s>a'


def test_a_chat_where_there_is_no_tokenizer(folder, tmp_path):
    llm = chat(folder, tmp_path, template=SHORT)
    Talk(llm).prompt([("user", "q")]).save(tmp_path / "talk")
    ids = Llm(tmp_path / "chat.clv", Device("cpu"))
    with pytest.raises(Error, match=r"the conversation is a chat, and the model has no tokenizer; .*talk"):
        Talk(ids).restore(tmp_path / "talk")
    assert Talk(ids).messages() == []
