#ifndef BACKEND_CPU_KERNELS_DISTANCE_KERNELS_H
#define BACKEND_CPU_KERNELS_DISTANCE_KERNELS_H
/* Distances of a few rows to 16 others, on the processor's widest vectors. */
#include <float.h>
#include <stdbool.h>
#include <stdint.h>

enum { DISTANCE_ROWS = 4, DISTANCE_LANES = 16 };

typedef enum distance_norm { DISTANCE_SUM, DISTANCE_EUCLIDEAN, DISTANCE_LARGEST } distance_norm;

/* Sums are over blocks of 64 terms in f32, then added up, with the same bits on all processors. */
typedef struct distance_tile {
  const float *a[DISTANCE_ROWS]; /* (m) each */
  const float *b;                /* (m, DISTANCE_LANES) */
  int64_t m;
  float *out; /* (DISTANCE_ROWS, DISTANCE_LANES) */
} distance_tile;
/* Computes the distances of all pairs of rows of a tile. */
void distance_run_tile(distance_norm norm, const distance_tile *tile);

/* DISTANCE_MARGIN is negative or NaN for a "near" distance, one for which |x|^2 + |y|^2 - 2 xy is
 * unreliable: cancellation lost more than four bits, or it is NaN or infinite. The caller then
 * recomputes it from differences. squares: |x|^2 + |y|^2. */
#define DISTANCE_MARGIN(squares, distance) ((distance) * (distance) - (squares) * (1 / 16.0F))
static inline bool distance_is_near(float squares, float distance) {
  const float margin = DISTANCE_MARGIN(squares, distance);
  return !(margin >= 0 && margin <= FLT_MAX);
}
/* Sets c[j] = sqrt(squares + others[j] - 2 c[j]) for j < n. Returns true if any of them is near. */
bool distance_of_products(float squares, const float *others, int64_t n, float *c);

#endif
