"""Matrix factorisations and ops made of them. Results that are not unique (signs of vectors) are compared by their
products. Tolerance: computed in f64 and rounded once. Products and quotients of rounded factors lose a few roundings
times the condition number, which is below 30 here."""

import torch

from describe import F32, F64, I32, NAN, Case, T, name_of, ulps

linalg = torch.linalg
SHAPES = ((5, 5), (7, 3), (3, 7), (1, 1), (2, 3, 4, 4), (2, 9, 2))


def tolerance(dtype, n=64):
    return {"rtol": ulps(dtype, n), "atol": ulps(dtype, n)}


def well(x):
    """Returns a square matrix far from singular."""
    return x + 6 * torch.eye(x.shape[-1], dtype=x.dtype)


def positive(x):
    return x @ x.mT + torch.eye(x.shape[-2], dtype=x.dtype)


def symmetric(x):
    return x + x.mT


def each(name, f, dtype, n):
    """Applies f to matrices of all shapes, in one program."""
    whole = lambda *xs: tuple(r for x in xs for r in f(x))
    return Case(name, whole, [T(shape, dtype) for shape in SHAPES], **tolerance(dtype, n))


def lu_cases(dtype, d):
    yield each(f"lu_{d}", lambda x: (*linalg.lu_factor_ex(x), *linalg.lu(x)), dtype, 64)
    solve = lambda a, b: (
        linalg.solve(well(a), b), linalg.solve(well(a), b[0, :, 0]), linalg.solve(well(a), b.mT, left=False), linalg.inv(well(a)),
        linalg.solve_ex(well(a), b)[1], linalg.solve(well(a[0]), b), linalg.solve(well(a), b[..., 0]), linalg.inv_ex(well(a))[1],
    )  # fmt: skip
    yield Case(f"solve_{d}", solve, [T((3, 5, 5), dtype, -1, 1), T((3, 5, 2), dtype)], **tolerance(dtype))
    packed = lambda a, b: (
        linalg.lu_solve(*linalg.lu_factor(well(a)), b), linalg.lu_solve(*linalg.lu_factor(well(a)), b, adjoint=True),
        linalg.lu_solve(*linalg.lu_factor(well(a)), b.mT, left=False), linalg.lu_solve(*linalg.lu_factor(well(a)), b.mT, left=False, adjoint=True),
    )  # fmt: skip
    yield Case(f"lu_solve_{d}", packed, [T((3, 5, 5), dtype, -1, 1), T((3, 5, 2), dtype)], **tolerance(dtype))
    powers = lambda a: (linalg.matrix_power(well(a), -3) * 1000, linalg.tensorinv(well(a).reshape(2, 3, 6), 2))
    yield Case(f"powers_{d}", powers, [T((6, 6), dtype, -1, 1)], **tolerance(dtype, 256))
    det = lambda x: (
        linalg.det(x),
        *linalg.slogdet(x),
        torch.logdet(well(x)),
        linalg.det(x[:0]),
        linalg.det(x[:, :0, :0]),
    )
    yield Case(f"det_{d}", det, [T((6, 4, 4), dtype)], **tolerance(dtype, 256))


def cholesky_cases(dtype, d):
    f = lambda x: (
        linalg.cholesky(positive(x)), linalg.cholesky(positive(x), upper=True), *linalg.cholesky_ex(positive(x[0])), torch.cholesky(positive(x)),
        torch.cholesky_solve(x, linalg.cholesky(positive(x))), torch.cholesky_solve(x, linalg.cholesky(positive(x), upper=True), upper=True),
        torch.cholesky_inverse(linalg.cholesky(positive(x))), torch.cholesky_inverse(linalg.cholesky(positive(x[0]), upper=True), upper=True),
    )  # fmt: skip
    yield Case(f"cholesky_{d}", f, [T((3, 5, 7), dtype, -1, 1)], **tolerance(dtype, 128))
    triangle = lambda a, b: (
        linalg.solve_triangular(well(a), b, upper=True), linalg.solve_triangular(well(a), b, upper=False), linalg.solve_triangular(well(a), b.mT, upper=True, left=False),
        linalg.solve_triangular(well(a), b.mT, upper=False, left=False), linalg.solve_triangular(a / 4, b, upper=True, unitriangular=True),
        linalg.solve_triangular(well(a[0]), b, upper=False), *torch.triangular_solve(b, well(a), transpose=True), *torch.triangular_solve(b, well(a[0]), upper=False),
    )  # fmt: skip
    yield Case(f"triangular_{d}", triangle, [T((3, 5, 5), dtype, -1, 1), T((3, 5, 2), dtype)], **tolerance(dtype))


def qr_cases(dtype, d):
    f = lambda x: (*linalg.qr(x), *linalg.qr(x, mode="complete"), linalg.qr(x, mode="r")[1])
    yield each(f"qr_{d}", f, dtype, 64)
    zeros = lambda x: (
        *linalg.qr(torch.zeros_like(x) * x), *linalg.qr(torch.tril(x).mT), linalg.qr(x * 1e-25)[0], linalg.qr(x * 1e-25)[1] * 1e25,
    )  # fmt: skip
    yield Case(f"qr_zeros_{d}", zeros, [T((4, 4), dtype)], **tolerance(dtype))


def eigen(x, uplo="L"):
    """Returns eigenvalues, the matrix rebuilt from them, and products of the vectors, which show orthonormality."""
    w, v = linalg.eigh(x, UPLO=uplo)
    return w, (v * w[..., None, :]) @ v.mT, v.mT @ v


def singular(x, full):
    """Returns singular values, the matrix rebuilt from them, and products of the vectors, which show orthonormality."""
    u, s, v = linalg.svd(x, full_matrices=full)
    k = s.shape[-1]
    return s, (u[..., :k] * s[..., None, :]) @ v[..., :k, :], u.mT @ u, v @ v.mT


def vector_cases(dtype, d):
    f = lambda x: (*eigen(symmetric(x)), *eigen(x, "U"), linalg.eigvalsh(x), *eigen(symmetric(x[0, :1, :1])))
    yield Case(f"eigh_{d}", f, [T((3, 6, 6), dtype)], **tolerance(dtype, 256))
    yield Case(f"eigh_large_{d}", lambda x: eigen(symmetric(x)), [T((40, 40), dtype)], **tolerance(dtype, 2048))
    equal = lambda x: (*eigen(torch.ones_like(x)), *eigen(torch.eye(5, dtype=x.dtype) * x[0, 0].sign()))
    yield Case(f"eigh_equal_{d}", equal, [T((5, 5), dtype)], **tolerance(dtype))
    yield each(f"svd_{d}", lambda x: (*singular(x, False), *singular(x, True), linalg.svdvals(x)), dtype, 256)
    low = lambda x: (
        *singular(x[:, :1] * x[:1], True),
        *singular(torch.zeros_like(x), True)[2:],
        *singular(x * 1e-18, False)[2:],
    )
    yield Case(f"svd_of_low_rank_{d}", low, [T((5, 7), dtype, 1, 2)], **tolerance(dtype, 256))
    norms = lambda x: (
        linalg.matrix_norm(x, "nuc"), linalg.matrix_norm(x, 2), linalg.matrix_norm(x, -2), linalg.matrix_rank(x), linalg.matrix_rank(x[:, :1] * x[:1]), linalg.cond(x[:5, :5]),
    )  # fmt: skip
    yield Case(f"norms_{d}", norms, [T((5, 7), dtype, 0.5, 2)], **tolerance(dtype, 2048))
    inverse = lambda x: (
        linalg.pinv(x),
        linalg.pinv(x, rtol=0.3),
        linalg.pinv(x, atol=0.5),
        linalg.pinv(symmetric(x[:, :, :4]), hermitian=True),
    )
    yield Case(f"pinv_{d}", inverse, [T((2, 4, 6), dtype)], **tolerance(dtype, 1024))


def exp_cases(dtype, d):
    f = lambda x: (
        linalg.matrix_exp(x),
        linalg.matrix_exp(x[0] * 1e-3),
        linalg.matrix_exp(x[:, :1, :1] * 5),
        linalg.matrix_exp(x * 0),
    )
    yield Case(f"matrix_exp_{d}", f, [T((3, 5, 5), dtype, -1, 1)], **tolerance(dtype, 256))
    nilpotent = lambda x: linalg.matrix_exp(torch.triu(x, 1) * 100)
    yield Case(f"matrix_exp_scaled_{d}", nilpotent, [T((4, 4), dtype, 0.5, 1)], **tolerance(dtype, 256))


EMPTY = (
    lambda x: (*linalg.lu(x), *linalg.qr(x), *linalg.qr(x, mode="complete"), *linalg.svd(x), linalg.svdvals(x), linalg.pinv(x)),
    lambda x: (linalg.inv(x), linalg.cholesky(x), *linalg.eigh(x), linalg.matrix_exp(x), linalg.solve(x, x)),
)  # fmt: skip


def cases():
    for dtype in (F32, F64):
        for family in (lu_cases, cholesky_cases, qr_cases, vector_cases, exp_cases):
            yield from family(dtype, name_of(dtype))
    for name, shape in {"rows": (0, 4), "columns": (4, 0), "batch": (0, 3, 3)}.items():
        yield Case(f"empty_{name}", EMPTY[0], [T(shape, F32)])
    yield Case("empty_square", EMPTY[1], [T((2, 0, 0), F32)])
    yield Case("empty_squares", EMPTY[1], [T((0, 3, 3), F32)])
    strided = lambda x: (linalg.inv(well(x.mT[::2])), linalg.qr(x.permute(2, 0, 1)[1:])[1], linalg.svdvals(x[:, ::2]))
    yield Case("strided", strided, [T((4, 5, 5), F32, -1, 1)], **tolerance(F32))
    yield Case(
        "singular_info",
        lambda x: (*linalg.lu_factor_ex(x), linalg.inv_ex(x)[1], linalg.det(x)),
        [T((3, 3), F32, values=(1.0, 2.0, 3.0))],
        **tolerance(F32),
    )
    yield Case(
        "indefinite_info", lambda x: linalg.cholesky_ex(-positive(x))[1] + linalg.cholesky_ex(x)[1], [T((2, 4, 4), F32)]
    )
    good = {"other": [T((3, 3), F32, values=(5.0, 1.0, 0.5, 0.0))]}
    ones = T((3, 3), F32, values=(1.0,))
    yield Case("singular_inv", linalg.inv, [ones], error="linalg.inv: a matrix is singular", **good, **tolerance(F32))
    yield Case(
        "singular_solve", lambda x: linalg.solve(x, x), [ones], error="a matrix is singular", **good, **tolerance(F32)
    )
    other = {"other": [T((3, 3), F32, values=(0.0, 0.0, 0.0, 9.0))]}
    yield Case(
        "indefinite",
        linalg.cholesky,
        [T((3, 3), F32, values=(-1.0,))],
        error="linalg.cholesky: a matrix is not positive definite",
        **other,
        **tolerance(F32),
    )
    bad = lambda x, p: torch.lu_unpack(x, p)
    pivots = {
        "inputs": [T((2, 2), F32), T((2,), I32, values=(1, 3))],
        "other": [T((2, 2), F32), T((2,), I32, values=(2, 2))],
    }
    yield Case("pivot_out_of_range", bad, **pivots, error="out of range")
    yield Case("nan", lambda x: (linalg.matrix_exp(x), linalg.det(x)), [T((3, 3), F32, values=(NAN,))])
