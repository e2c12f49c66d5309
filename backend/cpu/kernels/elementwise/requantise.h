#ifndef BACKEND_CPU_KERNELS_ELEMENTWISE_REQUANTISE_H
#define BACKEND_CPU_KERNELS_ELEMENTWISE_REQUANTISE_H
/* Codes of 8 bits of one tensor, or of two that are added, each scaled by channels; also of sums
 * that another kernel has just made. */
#include "backend/cpu/kernels/elementwise/requantise_args.h"

KERNEL(requantise, requantise_args);

enum { REQUANTISE_TILE = 64 };
/* codes[r] (n) of the first n sums of each of (rows, REQUANTISE_TILE), which stand for terms[0].x,
 * of channel + r; other[r]: n elements of terms[1].x, where that is there. Of sums, codes and
 * others there are REQUANTISE_TILE, of any value behind n. */
void requantise_sums(const requantise_args *args, int64_t channel, int rows, int n,
                     const int32_t *sums, const void *const *other, unsigned char *const *codes);

#endif
