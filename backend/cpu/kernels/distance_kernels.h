#ifndef BACKEND_CPU_KERNELS_DISTANCE_KERNELS_H
#define BACKEND_CPU_KERNELS_DISTANCE_KERNELS_H
/* Distances of a few rows to 16 others, on the widest vectors that the processor has. */
#include <stdint.h>

enum { DISTANCE_ROWS = 4, DISTANCE_LANES = 16 };

typedef enum distance_norm { DISTANCE_SUM, DISTANCE_EUCLIDEAN, DISTANCE_LARGEST } distance_norm;

/* Sums are taken in f32 over blocks of 64 terms, then added up; the same bits on all processors. */
typedef struct distance_tile {
  const float *a[DISTANCE_ROWS]; /* (m) each */
  const float *b;                /* (m, DISTANCE_LANES) */
  int64_t m;
  float *out; /* (DISTANCE_ROWS, DISTANCE_LANES) */
} distance_tile;
void distance_run_tile(distance_norm norm, const distance_tile *t);

#endif
