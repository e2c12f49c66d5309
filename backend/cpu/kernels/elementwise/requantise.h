#ifndef BACKEND_CPU_KERNELS_ELEMENTWISE_REQUANTISE_H
#define BACKEND_CPU_KERNELS_ELEMENTWISE_REQUANTISE_H
/* Requantises one tensor, or the sum of two, each scaled by channels, to codes of 8 bits. It also
 * serves kernels that have just computed the sums. */
#include "backend/cpu/kernels/elementwise/requantise_args.h"

KERNEL(requantise, requantise_args);

enum { REQUANTISE_TILE = 64 };
/* Computes n codes of channel + r from the first n sums of each row r of sums (rows,
 * REQUANTISE_TILE), which are used in place of terms[0].x. other[r]: n elements of terms[1].x, if
 * present. Rows of sums, codes and others have REQUANTISE_TILE accessible elements; those beyond n
 * may have any value. */
void requantise_sums(const requantise_args *args, int64_t channel, int rows, int n,
                     const int32_t *sums, const void *const *other, unsigned char *const *codes);

enum { REQUANTISE_CHANNELS = 16 };
/* Computes a code for each of n <= REQUANTISE_CHANNELS neighbouring channels, from `channel` on.
 * sums and other, which may be NULL, have the n elements of the terms. */
void requantise_channels(const requantise_args *args, int64_t channel, int n, const int32_t *sums,
                         const void *other, unsigned char *codes);

#endif
