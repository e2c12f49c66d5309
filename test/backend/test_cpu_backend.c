/* Tests the CPU backend through backend.h: buffers, the fault record, node numbers, host scalars,
 * times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "backend/backend.h"
#include "backend/recorded.h"

/* A device with one stream, and tensors in separate buffers. */
typedef struct bench {
  backend *device;
  stream *queue;
  bound_tensor tensors[4];
  scalar_value values[2];
} bench;

static void good(clave_status st) {
  if (!st) return;
  print_error("%s\n", status_message(st));
  status_free(st);
  fail();
}

static bench open_bench(void) {
  bench bench = {0};
  good(cpu_backend_create(2, &bench.device));
  good(bench.device->vt->stream_create(bench.device, &bench.queue));
  return bench;
}

static void close_bench(bench *bench) {
  for (int i = 0; i < 4; i++)
    bench->device->vt->buffer_destroy(bench->device, bench->tensors[i].buf);
  bench->device->vt->stream_destroy(bench->device, bench->queue);
  bench->device->vt->destroy(bench->device);
}

/* Sets slot i to a vector of n elements with the given contents (NULL: zeros). */
static void bind_vector(bench *bench, int i, dtype t, int64_t n, const void *data) {
  size_t bytes = (size_t)n * dtype_size(t);
  bench->tensors[i].tensor = (tensor){.type = t, .rank = 1, .dims = {n}};
  bench->tensors[i].slot = (uint32_t)i;
  tensor_set_contiguous(&bench->tensors[i].tensor);
  good(bench->device->vt->buffer_create(bench->device, bytes, &bench->tensors[i].buf));
  good(bench->device->vt->fill_zero(bench->queue, bench->tensors[i].buf, 0, bytes));
  if (data) good(bench->device->vt->write(bench->queue, bench->tensors[i].buf, 0, data, bytes));
}

static void run_op(bench *bench, ir_op type, void *op, uint32_t number) {
  ir_instruction ins = {.op_type = type, .op = op, .name = ""};
  const node node = {.instruction = &ins, .tensors = bench->tensors, .values = bench->values};
  good(run_once(bench->device, bench->queue, &node, number));
}

static void test_empty_and_wrapped_buffers(void **state) {
  (void)state;
  bench bench = open_bench();
  buffer *empty, *wrapped;
  good(bench.device->vt->buffer_create(bench.device, 0, &empty));
  good(bench.device->vt->read(bench.queue, empty, 0, NULL, 0));
  static const char text[] = "host memory";
  char copy[sizeof text];
  good(bench.device->vt->buffer_wrap(bench.device, text, sizeof text, false, &wrapped));
  good(bench.device->vt->read(bench.queue, wrapped, 5, copy, 6));
  assert_memory_equal(copy, "memory", 6);
  bench.device->vt->buffer_destroy(bench.device, empty);
  bench.device->vt->buffer_destroy(bench.device, wrapped);
  bench.device->vt->buffer_destroy(bench.device, NULL);
  assert_true(bench.device->info.shares_host_memory);
  close_bench(&bench);
}

/* Runs out = a <kind> b over vectors of I32. */
static void run_binary(bench *bench, ir_step_kind kind, uint32_t number) {
  ir_operand operands[] = {{.source = IR_OPERAND_SOURCE_INPUT, .index = 0},
                           {.source = IR_OPERAND_SOURCE_INPUT, .index = 1}};
  ir_step step = {.kind = kind, .dtype = DTYPE_I32, .operands = {operands, 2}};
  uint32_t inputs[] = {0, 1};
  ir_elementwise op = {.inputs = {inputs, 2}, .steps = {&step, 1}, .out = 2};
  run_op(bench, IR_OP_ELEMENTWISE, &op, number);
}

static void test_first_fault_wins(void **state) {
  (void)state;
  bench bench = open_bench();
  bind_vector(&bench, 0, DTYPE_I32, 3, (int32_t[]){7, INT32_MIN, 5});
  bind_vector(&bench, 1, DTYPE_I32, 3, (int32_t[]){2, -1, 1});
  bind_vector(&bench, 2, DTYPE_I32, 3, NULL);
  bind_vector(&bench, 3, DTYPE_I64, 3, (int64_t[]){1, -1, 9});
  device_fault fault;
  int32_t out[3];
  run_binary(&bench, IR_STEP_KIND_FLOOR_DIVIDE, 5);
  good(bench.device->vt->finish(bench.queue, &fault));
  assert_false(fault.present);
  good(bench.device->vt->read(bench.queue, bench.tensors[2].buf, 0, out, sizeof out));
  assert_memory_equal(out, ((int32_t[]){3, INT32_MIN, 5}), sizeof out);

  ir_index_select select = {.x = 0, .axis = 0, .index = 3, .out = 2};
  run_op(&bench, IR_OP_INDEX_SELECT, &select, 9);
  int32_t zero[3] = {0, 1, 0};
  good(bench.device->vt->write(bench.queue, bench.tensors[1].buf, 0, zero, sizeof zero));
  run_binary(&bench, IR_STEP_KIND_REMAINDER, 11);
  good(bench.device->vt->finish(bench.queue, &fault));
  assert_true(fault.present);
  assert_int_equal(fault.node, 9);
  assert_int_equal(fault.fault.kind, KERNEL_FAULT_INDEX);
  assert_int_equal(fault.fault.value, -1);
  assert_int_equal(fault.fault.low, 0);
  assert_int_equal(fault.fault.high, 2);

  run_binary(&bench, IR_STEP_KIND_REMAINDER, 12);
  good(bench.device->vt->finish(bench.queue, &fault));
  assert_true(fault.present);
  assert_int_equal(fault.node, 12);
  assert_int_equal(fault.fault.kind, KERNEL_FAULT_DIVISION);
  good(bench.device->vt->finish(bench.queue, &fault));
  assert_false(fault.present);
  close_bench(&bench);
}

/* The start of a slice update comes from a host scalar; planning has checked its range. */
static void test_slice_update_start(void **state) {
  (void)state;
  static const int32_t expected[][4] = {{1, 2, 0, 0}, {0, 1, 2, 0}, {0, 0, 1, 2}};
  for (int64_t start = 0; start < 3; start++) {
    bench bench = open_bench();
    bind_vector(&bench, 0, DTYPE_I32, 4, NULL);
    bind_vector(&bench, 1, DTYPE_I32, 2, (int32_t[]){1, 2});
    bind_vector(&bench, 2, DTYPE_I32, 4, NULL);
    bench.values[1] = (scalar_value){.known = true, .type = IR_VALUE_TYPE_INT, .i = start};
    ir_slice_update op = {
        .x = 0, .update = 1, .axis = -1, .start = {.vid = 1, .present = true}, .out = 2};
    run_op(&bench, IR_OP_SLICE_UPDATE, &op, 3);
    device_fault fault;
    int32_t out[4];
    good(bench.device->vt->finish(bench.queue, &fault));
    assert_false(fault.present);
    good(bench.device->vt->read(bench.queue, bench.tensors[2].buf, 0, out, sizeof out));
    assert_memory_equal(out, expected[start], sizeof out);
    close_bench(&bench);
  }
}

static void test_times(void **state) {
  (void)state;
  bench bench = open_bench();
  bind_vector(&bench, 0, DTYPE_F32, 1000, NULL);
  bind_vector(&bench, 1, DTYPE_F32, 1000, NULL);
  ir_copy op = {.x = 0, .out = 1};
  int64_t start, end;
  good(bench.device->vt->profile->enable(bench.queue, true));
  run_op(&bench, IR_OP_COPY, &op, 5000);
  good(bench.device->vt->profile->times(bench.queue, 5000, &start, &end));
  assert_true(start > 0 && end >= start);
  good(bench.device->vt->profile->times(bench.queue, 4999, &start, &end));
  assert_true(start == 0 && end == 0);
  close_bench(&bench);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_empty_and_wrapped_buffers),
      cmocka_unit_test(test_first_fault_wins),
      cmocka_unit_test(test_slice_update_start),
      cmocka_unit_test(test_times),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
