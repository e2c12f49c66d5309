/* Compares layouts with brute force: the storage positions of all elements in row-major order
 * define a layout. */
#include "ops/fixture.h"
#include "ops/node.h"

enum { MAX_ELEMENTS = 5000, ROUNDS = 4000 };

/* Positions of tensor's elements in row-major order; returns their number. */
static int list_positions(const tensor *tensor, int64_t *out) {
  int64_t index[MAX_RANK] = {0}, n = tensor_numel(tensor);
  for (int64_t k = 0; k < n; k++) {
    out[k] = tensor->offset;
    for (int i = 0; i < tensor->rank; i++) out[k] += index[i] * tensor->strides[i];
    for (int i = tensor->rank - 1; i >= 0 && ++index[i] == tensor->dims[i]; i--) index[i] = 0;
  }
  return (int)n;
}

static int pick(int n) { return rand() % n; }

/* A random layout: small dims, often 1, with permuted, doubled, zero or negative strides. */
static tensor random_layout(void) {
  tensor tensor = {.type = DTYPE_F32, .rank = pick(6)};
  for (int i = 0; i < tensor.rank; i++) tensor.dims[i] = pick(3) ? 1 + pick(4) : 1;
  tensor_set_contiguous(&tensor);
  for (int i = 0; i < tensor.rank; i++) {
    int k = pick(tensor.rank);
    if (pick(3) == 0) {
      int64_t d = tensor.dims[i], s = tensor.strides[i];
      tensor.dims[i] = tensor.dims[k], tensor.strides[i] = tensor.strides[k];
      tensor.dims[k] = d, tensor.strides[k] = s;
    }
    if (pick(5) == 0) tensor.strides[i] = 0;
    if (pick(5) == 0) tensor.strides[i] = -tensor.strides[i];
    if (pick(8) == 0) tensor.strides[i] *= 2;
  }
  tensor.offset = pick(10);
  return tensor;
}

static void contiguous_layouts(void **state) {
  (void)state;
  srand(1);
  for (int round = 0; round < ROUNDS; round++) {
    static int64_t at[MAX_ELEMENTS];
    tensor tensor = random_layout();
    int n = list_positions(&tensor, at);
    bool plain = true;
    for (int k = 0; k < n; k++) plain = plain && at[k] == tensor.offset + k;
    assert_int_equal(tensor_is_contiguous(&tensor), plain);
  }
  fixture_reset();
  uint32_t empty = slot(DTYPE_F32, 2, 0, 3);
  fix.tensors[empty].strides[1] = 7;
  assert_true(tensor_is_contiguous(&fix.tensors[empty]));
  assert_int_equal(tensor_numel(&fix.tensors[empty]), 0);
}

static void collapse_keeps_the_walk(void **state) {
  (void)state;
  srand(2);
  for (int round = 0; round < ROUNDS; round++) {
    static int64_t before[3][MAX_ELEMENTS], after[MAX_ELEMENTS];
    int n = 1 + pick(3), count = 0;
    tensor ts[3];
    ts[0] = random_layout();
    for (int k = 1; k < n; k++) {
      ts[k] = ts[0];
      if (pick(2)) tensor_set_contiguous(&ts[k]);
      if (ts[k].rank && pick(2)) ts[k].strides[pick(ts[k].rank)] = 0;
    }
    for (int k = 0; k < n; k++) count = list_positions(&ts[k], before[k]);
    tensors_collapse(ts, n);
    for (int k = 0; k < n; k++) {
      assert_int_equal(list_positions(&ts[k], after), count);
      assert_memory_equal(after, before[k], (size_t)count * sizeof *after);
      assert_int_equal(ts[k].rank, ts[0].rank);
      for (int i = 0; i < ts[k].rank; i++) assert_int_not_equal(ts[k].dims[i], 1);
    }
    if (count == 1) assert_int_equal(ts[0].rank, 0);
  }
}

static void collapse_merges_all_it_can(void **state) {
  (void)state;
  fixture_reset();
  tensor value = fix.tensors[slot(DTYPE_F32, 4, 2, 3, 1, 4)];
  tensors_collapse(&value, 1);
  assert_int_equal(value.rank, 1);
  assert_int_equal(value.dims[0], 24);
  tensor pair[2] = {fix.tensors[slot(DTYPE_F32, 3, 2, 3, 4)],
                    fix.tensors[slot(DTYPE_F32, 3, 2, 3, 4)]};
  pair[1].strides[0] = 0; /* a broadcast leading dimension is not merged */
  tensors_collapse(pair, 2);
  assert_int_equal(pair[0].rank, 2);
  tensor empty = fix.tensors[slot(DTYPE_F32, 3, 2, 0, 4)];
  tensors_collapse(&empty, 1);
  assert_int_equal(tensor_numel(&empty), 0);
}

/* Returns the view with `axis` moved to the end. */
static tensor axis_last(const tensor *value, int axis) {
  tensor moved = *value;
  for (int d = 0, to = 0; d < value->rank; d++) {
    int at = d == axis ? value->rank - 1 : to++;
    moved.dims[at] = value->dims[d];
    moved.strides[at] = value->strides[d];
  }
  return moved;
}

/* Rows of two tensors whose sizes differ along the axis alone are walked in the original order. */
static void rows_keep_the_walk(void **state) {
  (void)state;
  srand(3);
  for (int round = 0; round < ROUNDS; round++) {
    static int64_t wanted[MAX_ELEMENTS], have[MAX_ELEMENTS];
    tensor ts[2] = {random_layout()}, rows[2];
    int axis = ts[0].rank > 0 ? pick(ts[0].rank) : 0;
    ts[1] = ts[0];
    if (ts[1].rank > 0) ts[1].dims[axis] = 1 + pick(4);
    if (pick(2)) tensor_set_contiguous(&ts[1]);
    rows_along(ts, 2, axis, rows);
    assert_int_equal(rows[0].rank, rows[1].rank);
    for (int k = 0; k < 2; k++) {
      tensor moved = axis_last(&ts[k], axis);
      int count = list_positions(&moved, wanted), last = rows[k].rank - 1;
      rows[k].offset = ts[k].offset;
      assert_int_equal(list_positions(&rows[k], have), count);
      assert_memory_equal(have, wanted, (size_t)count * sizeof *have);
      assert_int_equal(rows[k].dims[last], ts[k].rank > 0 ? ts[k].dims[axis] : 1);
      if (rows[k].dims[last] == 1) assert_int_equal(rows[k].strides[last], 1);
      for (int d = 0; d < last; d++) assert_int_not_equal(rows[k].dims[d], 1);
    }
  }
}

static void broadcast_repeats(void **state) {
  (void)state;
  fixture_reset();
  tensor tensor = fix.tensors[slot(DTYPE_F32, 2, 3, 1)], out;
  int64_t at[24], shape[3] = {2, 3, 4};
  tensor_broadcast(&tensor, 3, shape, &out);
  assert_int_equal(list_positions(&out, at), 24);
  for (int k = 0; k < 24; k++) assert_int_equal(at[k], k / 4 % 3);
}

/* Finds the strides of a reshape, if they exist: those of unit steps must be right for every
 * element. */
static bool reshape_by_force(const tensor *input, tensor *out) {
  static int64_t old[MAX_ELEMENTS], new[MAX_ELEMENTS];
  int n = list_positions(input, old);
  int64_t step = 1;
  out->offset = input->offset;
  for (int i = out->rank - 1; i >= 0; i--) {
    if (out->dims[i] > 1) out->strides[i] = old[step] - old[0];
    step *= out->dims[i];
  }
  list_positions(out, new);
  return memcmp(old, new, (size_t)n * sizeof *old) == 0;
}

static tensor random_shape_of(int64_t n) {
  tensor tensor = {.type = DTYPE_F32};
  while (n > 1 && tensor.rank < MAX_RANK - 1) {
    int64_t d = 1 + pick((int)n);
    if (n % d == 0) tensor.dims[tensor.rank++] = d, n /= d;
  }
  tensor.dims[tensor.rank++] = n;
  return tensor;
}

static void reshape_views(void **state) {
  (void)state;
  srand(3);
  int good = 0;
  for (int round = 0; round < ROUNDS; round++) {
    fixture_reset();
    tensor tensor = random_layout(), out, want = random_shape_of(tensor_numel(&tensor));
    uint32_t tid = slot(DTYPE_F32, 0);
    fix.tensors[tid] = want;
    ir_reshape op = {.out = tid};
    rule_context context = fixture_context();
    bool expressible = reshape_by_force(&tensor, &want);
    assert_int_equal(view_reshape(&context, &op, &tensor, &out), expressible);
    if (!expressible) continue;
    static int64_t a[MAX_ELEMENTS], b[MAX_ELEMENTS];
    int n = list_positions(&tensor, a);
    assert_int_equal(list_positions(&out, b), n);
    assert_memory_equal(a, b, (size_t)n * sizeof *a);
    good++;
  }
  assert_in_range(good, ROUNDS / 10, ROUNDS - ROUNDS / 10);
}

/* One dimension of a random tensor sliced, flipped and selected, against index arithmetic along it.
 */
static void slice_views(void **state) {
  (void)state;
  srand(4);
  for (int round = 0; round < ROUNDS; round++) {
    fixture_reset();
    tensor tensor = random_layout(), out;
    if (tensor.rank == 0) continue;
    int axis = pick(tensor.rank);
    int64_t size = tensor.dims[axis], start = pick(9) - 4, stop = pick(9) - 4, step = 1 + pick(3),
            first, last;
    rule_context context = fixture_context();
    ir_slice op = {
        .axis = axis - tensor.rank, .start = lit(start), .stop = lit(stop), .step = lit(step)};
    assert_true(view_slice(&context, &op, &tensor, &out));
    slice_bounds(size, start, true, stop, &first, &last);
    int64_t count = 0;
    for (int64_t i = first; i < last; i += step) {
      assert_int_equal(out.offset + count * out.strides[axis],
                       tensor.offset + i * tensor.strides[axis]);
      count++;
    }
    assert_int_equal(out.dims[axis], count);
    ir_flip flip = {.axes = I32S(axis)};
    assert_true(view_flip(&context, &flip, &tensor, &out));
    for (int64_t i = 0; i < size; i++) {
      assert_int_equal(out.offset + i * out.strides[axis],
                       tensor.offset + (size - 1 - i) * tensor.strides[axis]);
    }
    ir_select select = {.axis = axis, .index = lit(-1)};
    assert_true(view_select(&context, &select, &tensor, &out));
    assert_int_equal(out.rank, tensor.rank - 1);
    assert_int_equal(out.offset, tensor.offset + (size - 1) * tensor.strides[axis]);
  }
}

static void bounds_as_in_python(void **state) {
  (void)state;
  static const int64_t cases[][5] = {
      {5, 0, 5, 0, 5}, {5, -2, 9, 3, 5}, {5, -9, -3, 0, 2}, {5, 4, 2, 4, 4}, {0, 1, 3, 0, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int64_t first, last;
    slice_bounds(cases[i][0], cases[i][1], true, cases[i][2], &first, &last);
    assert_int_equal(first, cases[i][3]);
    assert_int_equal(last, cases[i][4]);
  }
  int64_t first, last;
  slice_bounds(7, INT64_MIN, false, 0, &first, &last);
  assert_int_equal(first, 0);
  assert_int_equal(last, 7);
}

static void shapes_as_text(void **state) {
  (void)state;
  fixture_reset();
  char buf[64], tiny[6];
  assert_string_equal(
      tensor_shape_text(&fix.tensors[slot(DTYPE_F32, 3, 2, -1, 3)], buf, sizeof buf), "(2, ?, 3)");
  assert_string_equal(tensor_shape_text(&fix.tensors[slot(DTYPE_F32, 0)], buf, sizeof buf), "()");
  assert_string_equal(
      tensor_shape_text(&fix.tensors[slot(DTYPE_F32, 2, 12, 345)], tiny, sizeof tiny), "(12, ");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(contiguous_layouts),
      cmocka_unit_test(collapse_keeps_the_walk),
      cmocka_unit_test(collapse_merges_all_it_can),
      cmocka_unit_test(rows_keep_the_walk),
      cmocka_unit_test(broadcast_repeats),
      cmocka_unit_test(reshape_views),
      cmocka_unit_test(slice_views),
      cmocka_unit_test(bounds_as_in_python),
      cmocka_unit_test(shapes_as_text),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
