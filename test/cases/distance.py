"""cdist and pdist. Tolerance: torch computes large Euclidean distances by a matrix product, with the error of |a|^2 +
|b|^2 - 2ab, so cases compare with its direct method. Sums of up to 70 terms, a square root or a power."""

import torch

from describe import F32, F64, INF, NAN, Case, T, name_of, sums, ulps

DIRECT = "donot_use_mm_for_euclid_dist"
ORDERS = (0.0, 0.5, 1.0, 2.0, 3.0, INF)


def all_orders(a, b):
    return tuple(torch.cdist(a, b, p, compute_mode=DIRECT) for p in ORDERS)


def cases():
    for dtype in (F32, F64):
        tol = {"rtol": ulps(dtype, 64), "atol": sums(dtype, 70)}
        yield Case(f"cdist_{name_of(dtype)}", all_orders, [T((2, 7, 70), dtype), T((2, 5, 70), dtype)], **tol)
        yield Case(
            f"pdist_{name_of(dtype)}", lambda x: tuple(torch.pdist(x, p) for p in ORDERS), [T((9, 33), dtype)], **tol
        )
    tol = {"rtol": 1e-5, "atol": 1e-5}
    yield Case("broadcast", lambda a, b: torch.cdist(a, b), [T((3, 1, 4, 6)), T((2, 5, 6))], **tol)
    yield Case("large", lambda a, b: torch.cdist(a, b), [T((40, 16)), T((60, 16))], rtol=1e-4, atol=1e-4)
    finite_orders = lambda a, b: all_orders(a, b)[:-1]  # torch's infinity norm ignores a NaN that precedes an infinity
    yield Case("nan", finite_orders, [T((3, 4), values=(1.0, NAN, INF, 2.0, 0.0)), T((2, 4))], **tol)
    yield Case("tiles", all_orders, [T((2, 6, 130)), T((2, 35, 130))], rtol=ulps(F32, 140), atol=1e-4)
    chunks = [T((133, 20)), T((37, 20))]
    yield Case("chunks", all_orders, chunks, rtol=ulps(F32, 64), atol=sums(F32, 70))
    # The CPU backend and OpenCL compute many rows as a product, unless it would lose digits.
    direct = lambda a, b: torch.cdist(a, b, compute_mode=DIRECT)
    near = lambda a, b: (direct(a, b), direct(a, a[:, :57]), direct(a, a + 0.01 * b))
    products = [T((2, 70, 140)), T((2, 70, 140))]
    yield Case("products", near, products, rtol=ulps(F32, 140), atol=1e-6)
    infinite = [T((40, 33), values=(1.0, -2.0, 0.5, INF, 3.0, 0.0, -0.5)), T((35, 33))]
    yield Case("infinite_products", direct, infinite, rtol=ulps(F32, 64), atol=1e-6)
    yield Case("empty", lambda a, b: (torch.cdist(a, b), torch.cdist(a[:, :0], a[:, :0])), [T((3, 4)), T((0, 4))])
    both = lambda a, b: (torch.cosine_similarity(a, b, 1), torch.pairwise_distance(a, b, 3.0), torch.dist(a, b, 1.0))
    yield Case("pairs", both, [T((6, 33)), T((6, 33))], **tol)
