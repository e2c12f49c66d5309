"""Sizes worth testing: each constant at which a kernel or its choice changes, and where it is defined."""

import random

# Maps a value to its source. A size is drawn at, below or above one of these.
CONSTANTS = {
    4: "W of half vectors and BLOCK in matmul.cl; ROWS in distance.cl and gemv.cl; TILE_ROWS in copy.cl; MIN_PANELS in gemm_packed.c",
    6: "ROWS of gemm.cl with 8 floats a register",
    8: "W of AVX; KEYS in attention.cl, DEEP in gemv.cl, SIDE in matmul.cl; FEW_ROWS in matmul.c, CPU_STRIP in reduce.c",
    16: "W of vector.h; MIN_LINE in copy.c and elementwise.c, row_class in families.c, DEPTH in matmul.cl, GPU_RUN in sort.c",
    32: "CPU_RUN in sort.c, teams in families.c and norm.c; a panel of gemm.cl (2 registers)",
    64: "LOCAL_SIZE in opencl.h, LANES and CHAIN in gemv.cl, CHAIN in gemm.cl, CPU_CHUNK in cat.c",
    128: "BLOCK in softmax.cl, reduce.cl and cumulate.cl; SPLIT_KEYS in attention.c, MAX_STRIP in gemm_packed.c",
    256: "DEPTH in gemm.cl, BLOCK in attention.cl, LARGEST_CLASS in attention.c, GPU_PART in cumulate.c",
    512: "BLOCK in conv.cl, MAX_SPLITS in cumulate.c",
    1024: "MIN_SORTED in scatter.c, CPU_CHUNK and MAX_STRETCH in sort.c",
    2048: "BLOCK * W, a unit of rows in reduce.cl and softmax.cl",
    4096: "CPU_PART in cumulate.c, CHUNK_FLOATS in gemv.c",
    8192: "BLOCK * TEAM, a unit of a GPU's rows",
    16384: "MIN_SPLIT_WORK in reduce.c, GPU_ITEMS in scatter.c",
}
SMALL = (2, 3, 4, 5, 6, 7)


def draw(rng: random.Random, most: int, least: int = 1) -> int:
    """Returns a size: half of them are small, the others are next to a constant."""
    if rng.random() < 0.5 or most < 8:
        return max(least, min(most, rng.choice((*SMALL, least))))
    near = [c + d for c in CONSTANTS for d in (-1, 0, 1) if least <= c + d <= most]
    return rng.choice(near)
