/* Selects rows of a table by an index of INDEX_TYPE. */
#ifndef PICKED_H
#define PICKED_H
#ifndef INDEX_TYPE
#define INDEX_TYPE I64
#endif

/* Returns the row that an index element selects. Reports one that is out of range and returns 0. */
static inline long picked_row(__global const STORAGE(INDEX_TYPE) * at, index_t rows, FAULT_PARAMS) {
  const long row = *at;
  if (row >= 0 && row < rows) return row;
  set_fault(fault, fault_node, FAULT_INDEX, row, 0, rows - 1);
  return 0;
}
#endif
