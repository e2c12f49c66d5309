/* Layout of a padded row by phases of a stride: element k of a phase is element first + k * stride
 * of the row. */
#ifndef PHASE_ROW_H
#define PHASE_ROW_H

/* Elements [begin, end) of a phase's n are inside of a row of `columns`; others are padding. */
typedef struct phase_row {
  int begin, end;
} phase_row;
static inline phase_row phase_row_of(int first, int stride, int columns, int n) {
  phase_row r = {0, 0};
  if (first < 0) r.begin = min((-first + stride - 1) / stride, n);
  if (first < columns) r.end = min((columns - first + stride - 1) / stride, n);
  if (r.end < r.begin) r.begin = r.end = 0;
  return r;
}
#endif
