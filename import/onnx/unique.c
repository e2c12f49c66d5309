/* Unique: rows are sorted, so that equal ones are neighbours; each run of equal rows is one result.
 */
#include "import/emit_index.h"
#include "import/onnx/converters.h"

enum { MAX_COLUMNS = 64 }; /* rows are sorted column by column */

/* Results by run of equal rows, in sorted order. */
typedef struct unique_runs {
  number n, count;
  value *rows;    /* (count, columns), or (count) */
  value *first;   /* (count): the smallest index of a row of the run */
  value *inverse; /* (n): the run of each row */
  value *lengths; /* (count) */
} unique_runs;

static value *unique_pick(importer *im, value *input, value *index) {
  return emit_index_select(im, input, 0, index);
}

static value *unique_fill(importer *im, number n, int64_t element) {
  return emit_full(im, CLAVE_I64, 1, &n, number_int(element));
}

/* Returns (n), BOOL: true for a row that differs from the one before it. */
static value *unique_begins(importer *im, value *rows) {
  const number n = rows->dims[0];
  const int column = 1;
  value *at = emit_positions(im, n, 0, 1);
  value *before = emit_binary_number(im, "sub", at, number_int(1));
  before = emit_binary_number(im, "maximum", before, number_int(0));
  value *differs = emit_binary(im, "ne", rows, unique_pick(im, rows, before));
  if (rows->rank == 2) differs = emit_reduce(im, "any", differs, &column, 1, false);
  return emit_binary(im, "logical_or", differs, emit_binary_number(im, "eq", at, number_int(0)));
}

/* Finds the runs of sorted rows. places: (n), the rows' indices before they were sorted. */
static void unique_find(importer *im, value *rows, value *places, unique_runs *runs) {
  if (!rows || !import_ok(im)) return;
  const number n = runs->n = rows->dims[0];
  value *begins = unique_begins(im, rows), *found = emit_true_indices(im, begins, &runs->count);
  runs->rows = unique_pick(im, rows, found);
  runs->first = unique_pick(im, places, found);
  value *run = emit_cumulate(im, "sum", emit_cast(im, begins, CLAVE_I64), 0);
  run = emit_binary_number(im, "sub", run, number_int(1));
  runs->inverse = emit_scatter_any(im, "assign", unique_fill(im, n, 0), 0, places, run);
  value *lengths =
      emit_scatter_any(im, "add", unique_fill(im, n, 0), 0, run, unique_fill(im, n, 1));
  runs->lengths = emit_slice(im, lengths, 0, number_int(0), runs->count);
}

/* Orders the runs by their first rows. */
static void unique_in_order(importer *im, unique_runs *runs) {
  value *order;
  runs->first = emit_sort(im, runs->first, 0, runs->count, false, &order);
  runs->rows = unique_pick(im, runs->rows, order);
  runs->lengths = unique_pick(im, runs->lengths, order);
  value *rank = emit_scatter_any(im, "assign", unique_fill(im, runs->count, 0), 0, order,
                                 emit_positions(im, runs->count, 0, 1));
  runs->inverse = unique_pick(im, rank, runs->inverse);
}

/* Sorts rows (n, columns) by their first elements, then by their second ones, and so on. */
static value *unique_sort_rows(importer *im, value *rows, value **places) {
  const number n = rows->dims[0], columns = rows->dims[1];
  if (columns.id || columns.i > MAX_COLUMNS) {
    import_unsupported(im, "parts of more than %d elements, or of an open number", MAX_COLUMNS);
    return NULL;
  }
  *places = emit_positions(im, n, 0, 1);
  for (int64_t c = columns.i - 1; c >= 0; c--) {
    value *order, *key = unique_pick(im, emit_select(im, rows, 1, number_int(c)), *places);
    (void)emit_sort(im, key, 0, n, false, &order);
    *places = unique_pick(im, *places, order);
  }
  return unique_pick(im, rows, *places);
}

/* Returns input as rows (size of the axis, other elements). */
static value *unique_rows_of(importer *im, value *input, int axis, number *dims) {
  int order[CLAVE_MAX_RANK] = {axis};
  for (int d = 0, to = 1; d < input->rank; d++)
    if (d != axis) order[to++] = d;
  value *front = emit_permute(im, input, order);
  for (int d = 0; front && d < input->rank; d++) dims[d] = front->dims[d];
  number sizes[2] = {input->dims[axis], number_int(1)};
  for (int d = 0; d < input->rank; d++)
    if (d != axis) sizes[1] = number_mul(im, sizes[1], input->dims[d]);
  return emit_reshape(im, front, 2, sizes);
}

/* Returns rows in the order of dimensions of the input. dims: of the input, the axis first. */
static value *unique_back(importer *im, value *rows, int rank, int axis, number *dims) {
  int order[CLAVE_MAX_RANK];
  if (!rows) return NULL;
  dims[0] = rows->dims[0];
  for (int d = 0; d < rank; d++) order[d] = d == axis ? 0 : d < axis ? d + 1 : d;
  return emit_permute(im, emit_reshape(im, rows, rank, dims), order);
}

void onnx_unique(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0), *places = NULL;
  const bool whole = !node_has(node, "axis"), sorted = node_int(node, "sorted", 1);
  number dims[CLAVE_MAX_RANK];
  unique_runs runs = {0};
  if (!x) return;
  if (x->type == CLAVE_U64) import_unsupported(im, "dtype UINT64");
  const clave_dtype type = x->type;
  x = type == CLAVE_BOOL ? emit_cast(im, x, CLAVE_U8) : emit_computable(im, x);
  const number n = value_numel(im, x);
  const int axis = whole || !x ? 0 : emit_axis(im, node_int(node, "axis", 0), x->rank);
  if (!import_ok(im)) return;
  value *rows = whole ? emit_reshape(im, x, 1, &n) : unique_rows_of(im, x, axis, dims);
  if (!rows) return;
  value *in_order =
      whole ? emit_sort(im, rows, 0, n, false, &places) : unique_sort_rows(im, rows, &places);
  unique_find(im, in_order, places, &runs);
  if (!sorted) unique_in_order(im, &runs);
  if (!whole) runs.rows = unique_back(im, runs.rows, x->rank, axis, dims);
  node_set(node, 0, emit_cast(im, runs.rows, type));
  node_set(node, 1, runs.first);
  node_set(node, 2, runs.inverse);
  node_set(node, 3, runs.lengths);
}
