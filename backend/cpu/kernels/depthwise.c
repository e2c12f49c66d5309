/* Planes convolved by themselves. */
#include "backend/cpu/kernels/depthwise.h"

#include "backend/cpu/kernels/vector.h"

void plane_taps_init(const conv_part *a, plane_taps *p) {
  for (int64_t j = 0; j < a->d[2].taps; j++) {
    valid_columns(a, input_at(&a->d[2], 0, j), 0, a->d[2].count, &p->first[j], &p->stop[j]);
    p->from[j] = input_at(&a->d[2], p->first[j], j);
  }
}

/* The columns of the taps in a row of the plane, for n cells from `at` on; how many meet them. */
static int find_terms(const conv_part *a, const plane_taps *p, const float *row,
                      const float *weight, int64_t at, int64_t n, weighted_row *to) {
  int count = 0;
  for (int64_t j = 0; j < a->d[2].taps; j++) {
    int64_t first = p->first[j] > at ? p->first[j] : at,
            stop = p->stop[j] < at + n ? p->stop[j] : at + n;
    if (first < stop)
      to[count++] = (weighted_row){.x = row + p->from[j] + (first - p->first[j]) * a->d[2].stride,
                                   .weight = weight[j],
                                   .first = first - at,
                                   .stop = stop - at};
  }
  return count;
}

void plane_taps_sum(const conv_part *a, const plane_taps *p, const float *plane,
                    const int64_t cell[], int64_t n, float *values) {
  weighted_row terms[MOST_TERMS];
  int64_t tap[CONV_DIMS] = {0};
  const float *w = p->weight;
  int count = 0;
  for (tap[0] = 0; tap[0] < a->d[0].taps; tap[0]++)
    for (tap[1] = 0; tap[1] < a->d[1].taps; tap[1]++, w += a->d[2].taps) {
      int64_t row = input_row(a, cell, tap);
      if (row < 0) continue;
      count += find_terms(a, p, plane + row * a->p->dims[2].in, w, cell[2], n, terms + count);
    }
  weighted_sums_f32(n, count, terms, a->d[2].stride, values);
}
