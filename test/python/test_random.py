"""Random ops: the generator against one written here, equal on both backends, and distributions (fixed seeds)."""

import math

import numpy as np
import pytest
import torch

import clave

DEVICES = ("cpu", "opencl")


class Drawing(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def program(function, *args):
    return clave.export(Drawing(function).eval(), args)


def philox(counter, key):
    """Computes ten rounds of Philox 4x32 on columns of counters: (4, n) -> (4, n)."""
    c = [np.asarray(x, np.uint64) for x in counter]
    k = [np.uint64(key & 0xFFFFFFFF), np.uint64(key >> 32)]
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [(b >> half) ^ c[1] ^ k[0], b & low, (a >> half) ^ c[3] ^ k[1], a & low]
        k = [(k[0] + np.uint64(0x9E3779B9)) & low, (k[1] + np.uint64(0xBB67AE85)) & low]
    return np.stack(c)


def words(n, seed, stream, run):
    """Returns words 0 .. n of a stream."""
    blocks = np.arange((n + 3) // 4, dtype=np.uint64)
    zero = np.zeros_like(blocks)
    return philox([blocks, zero, zero + np.uint64(stream), zero + np.uint64(run)], seed).T.reshape(-1)[:n]


def test_known_answers():
    """The authors' test vectors."""
    assert [hex(x) for x in philox([0, 0, 0, 0], 0)] == ["0x6627e8d5", "0xe169c58d", "0xbc57ac4c", "0x9b00dbd8"]
    pi = philox([0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], 0x299F31D0A4093822)
    assert [hex(x) for x in pi] == ["0xd16cfe09", "0x94fdcceb", "0x5001e420", "0x24126ea1"]


@pytest.mark.parametrize("device", DEVICES)
def test_bits(device):
    """Each element is made from the words that the documentation names."""
    n, seed = 1003, 0x123456789ABCDEF0
    half, double = torch.float16, torch.float64
    p = program(
        lambda: (torch.rand(n), torch.rand(n, dtype=half), torch.rand(n, dtype=double), torch.randint(-5, 10**12, (n,)))
    )
    session = clave.Session(p, device, seed=seed)
    for run in (1, 2):
        f32, f16, f64, i64 = session.run()
        assert np.array_equal(f32, (words(n, seed, 0, run) >> np.uint64(8)).astype(np.float64) * 2.0**-24)
        assert np.array_equal(f16, (words(n, seed, 1, run) >> np.uint64(21)).astype(np.float64) * 2.0**-11)
        pairs = [words(2 * n, seed, stream, run).reshape(-1, 2) for stream in (2, 3)]
        bits = [w[:, 0] | w[:, 1] << np.uint64(32) for w in pairs]
        assert np.array_equal(f64, (bits[0] >> np.uint64(11)).astype(np.float64) * 2.0**-53)
        assert i64.tolist() == [int(b) * (10**12 + 5) // 2**64 - 5 for b in bits[1]]


def test_both_backends_agree():
    p = program(
        lambda w: (
            torch.rand(999), torch.rand(999, dtype=torch.bfloat16), torch.randint(0, 7, (5, 9)), torch.randperm(1000),
            torch.bernoulli(w), torch.multinomial(w, 3), torch.randn(999), torch.randn(99, dtype=torch.float64),
        ),
        torch.rand(4, 8),
    )  # fmt: skip
    w = torch.rand(4, 8, generator=torch.Generator().manual_seed(1))
    a, b = (clave.Session(p, device, seed=7).run(w) for device in DEVICES)
    for x, y in zip(a[:6], b[:6], strict=True):
        assert np.array_equal(x, y)
    assert np.allclose(a[6], b[6], rtol=1e-5, atol=1e-6)
    assert np.allclose(a[7], b[7], rtol=1e-13, atol=1e-14)


def test_sequence():
    """Runs, nodes and seeds differ; a session's reset starts over."""
    p = program(lambda: (torch.rand(100), torch.rand(100)))
    session = clave.Session(p, "cpu", seed=3)
    first, second = session.run(), session.run()
    assert not np.array_equal(first[0], first[1]) and not np.array_equal(first[0], second[0])
    session.reset()
    assert np.array_equal(session.run()[0], first[0])
    assert np.array_equal(clave.Session(p, "cpu", seed=3).run()[1], first[1])
    assert not np.array_equal(clave.Session(p, "cpu", seed=4).run()[0], first[0])
    assert np.array_equal(clave.Session(p, "cpu").run()[0], clave.Session(p, "cpu", seed=0).run()[0])
    with pytest.raises(clave.Error, match="seed"):
        clave.Session(p, "cpu", seed=-1)


def distance(sample, cdf):
    """Returns the Kolmogorov-Smirnov distance: the largest difference from a cdf, times sqrt(n). 1 in 1000 exceeds
    1.95."""
    x = np.sort(np.asarray(sample, np.float64))
    steps = np.arange(len(x) + 1) / len(x)
    at = cdf(x)
    return max(np.abs(at - steps[1:]).max(), np.abs(at - steps[:-1]).max()) * math.sqrt(len(x))


def chi_squared(counts, expected):
    counts, expected = np.asarray(counts, np.float64), np.asarray(expected, np.float64)
    return float(((counts - expected) ** 2 / expected).sum())


N = 40000
erf = np.vectorize(math.erf)
CONTINUOUS = {
    "rand": (lambda: torch.rand(N), lambda x: x),
    "randn": (lambda: torch.randn(N), lambda x: (1 + erf(x / math.sqrt(2))) / 2),
    "randn_f64": (lambda: torch.randn(N, dtype=torch.float64), lambda x: (1 + erf(x / math.sqrt(2))) / 2),
    "uniform": (lambda: torch.empty(N).uniform_(-3, 5), lambda x: (x + 3) / 8),
    "normal": (lambda: torch.normal(1.0, 2.0, (N,)), lambda x: (1 + erf((x - 1) / 2 / math.sqrt(2))) / 2),
    "exponential": (lambda: torch.empty(N).exponential_(2), lambda x: 1 - np.exp(-2 * x)),
    "cauchy": (lambda: torch.empty(N).cauchy_(1, 3), lambda x: np.arctan((x - 1) / 3) / math.pi + 0.5),
    "log_normal": (lambda: torch.empty(N).log_normal_(0, 1), lambda x: (1 + erf(np.log(x) / math.sqrt(2))) / 2),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous(name):
    function, cdf = CONTINUOUS[name]
    (sample,) = clave.Session(program(function), "cpu", seed=5).run()
    assert distance(sample, cdf) < 1.95


def test_discrete():
    w = torch.tensor([1.0, 0.0, 3.0, 2.0, 4.0])
    p = program(
        lambda w: (
            torch.randint(3, 11, (N,)), torch.bernoulli(torch.full((N,), 0.3)), torch.empty(N).geometric_(0.4),
            torch.multinomial(w, N, True), torch.multinomial(w.expand(N, 5), 2), torch.randperm(N),
        ),
        w,
    )  # fmt: skip
    integers, coins, trials, drawn, without, order = clave.Session(p, "cpu", seed=9).run(w)
    assert chi_squared(np.bincount(integers)[3:], [N / 8] * 8) < 24.3  # 7 degrees of freedom, one in a thousand
    assert abs(coins.sum() - 0.3 * N) < 3.3 * math.sqrt(0.21 * N)
    expected = [0.4 * 0.6**k * N for k in range(8)]
    assert chi_squared([(trials == k + 1).sum() for k in range(8)], expected) < 26.1
    share = np.array([0.1, 0.3, 0.2, 0.4])
    assert (drawn != 1).all() and (without != 1).all() and (without[:, 0] != without[:, 1]).all()
    assert chi_squared(np.bincount(drawn, minlength=5)[[0, 2, 3, 4]], share * N) < 16.3
    assert chi_squared(np.bincount(without[:, 0], minlength=5)[[0, 2, 3, 4]], share * N) < 16.3
    assert np.array_equal(np.sort(order), np.arange(N))
    assert abs(np.corrcoef(order, np.arange(N))[0, 1]) < 3.3 / math.sqrt(N)


def test_reset_and_loops():
    """Each iteration of a loop draws new numbers."""

    def body(i, x):
        return i + 1, torch.cat([x[1:], torch.rand(1)])

    p = program(
        lambda x: torch._higher_order_ops.while_loop(lambda i, x: i < 8, body, (torch.tensor(0), x))[1], torch.zeros(8)
    )
    for device in DEVICES:
        (x,) = clave.Session(p, device).run(torch.zeros(8))
        assert len(set(x.tolist())) == 8
