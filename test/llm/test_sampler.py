"""The sampler's distributions: each draw equals the reference's, and counts pass a chi-squared test."""

import itertools

import numpy as np
import pytest
from _sampler import Sampler, options, probabilities, uniform

V, DRAWS = 60, 20000
CHOICES = {
    "temperature": [0.5, 1.7],
    "top_k": [0, 1, 12],
    "top_p": [0, 0.6, 0.95],
    "min_p": [0, 0.1],
    "repetition_penalty": [1, 1.4],
    "presence_penalty": [0, 0.5],
    "frequency_penalty": [0, 0.2],
    "penalty_window": [0, 5],
}


def combinations():
    """Yields each pair of values of two options at least once; other options are a fixed random choice."""
    rng = np.random.default_rng(3)
    names = list(CHOICES)
    for a, b in itertools.combinations(names, 2):
        for x, y in itertools.product(CHOICES[a], CHOICES[b]):
            yield {n: {a: x, b: y}.get(n, rng.choice(CHOICES[n]).item()) for n in names}


def test_philox_is_philox():
    from _sampler import philox

    # The first two of the vectors that Salmon et al. publish with Random123.
    assert philox(0, [0, 0, 0, 0]) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    ones = 0xFFFFFFFF
    assert philox(ones << 32 | ones, [ones] * 4) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]


def test_every_draw_is_the_references():
    rng = np.random.default_rng(1)
    for i, choice in enumerate(combinations()):
        logits = (3 * rng.standard_normal(V)).astype(np.float32)
        logits[rng.integers(V, size=10)] = logits[0]  # equal logits
        seen = rng.integers(V, size=30).tolist()
        o = options({3: 1.5, 7: -np.inf}, seed=i << 33 | i, **choice)
        sums = np.cumsum(probabilities(logits, o, seen))
        sampler = Sampler(o)
        for draw in range(20):
            want = int(np.searchsorted(sums / sums[-1], uniform(o.seed, draw), side="right"))
            assert sampler.sample(logits, seen) == want, (choice, draw)


@pytest.mark.parametrize(
    "choice",
    [
        {"temperature": 1.0},
        {"temperature": 0.7, "top_k": 12},
        {"temperature": 1.5, "top_p": 0.8},
        {"temperature": 1.2, "min_p": 0.05},
        {
            "temperature": 1.3,
            "top_k": 30,
            "top_p": 0.9,
            "min_p": 0.02,
            "repetition_penalty": 1.3,
            "presence_penalty": 0.2,
        },
    ],
    ids=str,
)
def test_chi_squared(choice):
    """Counts match the reference's probabilities; the bound is the statistic's mean + 4.5 standard deviations."""
    logits = (2 * np.random.default_rng(2).standard_normal(V)).astype(np.float32)
    o = options(seed=11, **choice)
    want = DRAWS * probabilities(logits, o, range(10))
    sampler = Sampler(o)
    counts = np.bincount([sampler.sample(logits, range(10)) for _ in range(DRAWS)], minlength=V)
    assert not counts[want == 0].any()
    often = want >= 5
    cells = np.append(want[often], want[~often].sum()), np.append(counts[often], counts[~often].sum())
    use = cells[0] > 0
    statistic = ((cells[1] - cells[0])[use] ** 2 / cells[0][use]).sum()
    freedom = use.sum() - 1
    assert statistic < freedom + 4.5 * np.sqrt(2 * freedom)


def test_large_vocabulary():
    """Blocks and digits of the real size, and the reference's answer."""
    rng = np.random.default_rng(5)
    logits = (3 * rng.standard_normal(128256)).astype(np.float32)
    for choice in (
        {},
        {"top_k": 50},
        {"top_k": 70000},
        {"top_p": 0.9},
        {"min_p": 0.01},
        {"top_k": 9000, "top_p": 0.99},
    ):
        o = options(temperature=0.9, seed=9, **choice)
        sums = np.cumsum(probabilities(logits, o))
        sampler = Sampler(o)
        got = [sampler.sample(logits) for _ in range(40)]
        assert got == [int(np.searchsorted(sums / sums[-1], uniform(9, i), side="right")) for i in range(40)], choice
