/* Tests planning on devices that run nothing: the schedules of small programs, and that no command
 * reads overwritten memory, for these and for every program that fuzzing found. Run from the
 * project's root. */
#include <dirent.h>

#include "interp/simulate.h"

/* A program with a method of one chain. Tensors: x, out, then temporaries, all f32 (4, 6) unless
 * described otherwise. */
#define T(name) "{'shape': [{'literal': 4}, {'literal': 6}], 'name': '" name "'}"
#define TT(name) "{'shape': [{'literal': 6}, {'literal': 4}], 'name': '" name "'}"
#define ADD(name, x, n, out)                                                     \
  "{'op_type': 'Elementwise', 'op': {'inputs': [{'idx': " #x                     \
  "}], 'steps': [{'kind': 'add', 'operands': [{}, {'source': 'float_', 'f': " #n \
  "}]}], 'out': {'idx': " #out "}}, 'name': '" name "'}"
#define SOFTMAX(name, x, out)                                                           \
  "{'op_type': 'Softmax', 'op': {'x': {'idx': " #x "}, 'axis': 1, 'out': {'idx': " #out \
  "}}, 'name': '" name "'}"
#define TRANSPOSE(name, x, out)                                                              \
  "{'op_type': 'Permute', 'op': {'x': {'idx': " #x "}, 'dims': [1, 0], 'out': {'idx': " #out \
  "}}, 'name': '" name "'}"
#define MAXIMUM(name, x, out)                                                              \
  "{'op_type': 'Reduce', 'op': {'kind': 'max', 'x': {'idx': " #x "}, 'out': {'idx': " #out \
  "}}, 'name': '" name "'}"
#define ITEM(name, x, out)                                                                     \
  "{'op_type': 'Item', 'op': {'x': {'idx': " #x "}, 'out': {'idx': " #out "}}, 'name': '" name \
  "'"                                                                                          \
  "}"
#define STORE(state, value) "{'state': {'idx': " #state "}, 'value': {'idx': " #value "}}"
#define METHOD_WITH(updates)                                                                     \
  "'methods': [{'name': 'forward', 'inputs': [{'name': 'x', 'tensor': {'idx': 0}}], 'outputs': " \
  "[{'name': 'y', 'tensor': {'idx': 1}}], 'updates': [" updates "], 'metadata': ''}]"
#define METHOD METHOD_WITH("")
/* more: fields before 'tensors', each followed by a comma. updates: those of state. */
#define PROGRAM_WITH(more, tensors, instructions, updates)                                         \
  "{'version': 1, 'producer': 'test', 'n_inputs': 1, 'n_outputs': 1, " more "'tensors': [" tensors \
  "], 'chains': [{'name': 'forward', 'instructions': [" instructions                               \
  "]}], " METHOD_WITH(updates) "}"
#define PROGRAM(tensors, instructions) PROGRAM_WITH("", tensors, instructions, "")

typedef struct planned {
  program *prog;
  null_device devices[3];
  executable *x;
  schedule *p;
} planned;

static planned plan_text(const char *text, int n_devices, bool unfused) {
  static planned planned;
  planned.prog = program_of(text);
  device_set set = null_devices(planned.devices, n_devices);
  good(
      executable_create(planned.prog, &set, &(executable_options){.unfused = unfused}, &planned.x));
  scalar_value *values = input_values(planned.prog, 0, 2);
  good(schedule_find(planned.x, 0, values, false, &planned.p));
  uint32_t commands;
  simulate(planned.x, 0, values, &commands);
  free(values);
  return planned;
}

static void forget(planned *planned) {
  schedule_release(planned->x, planned->p);
  executable_destroy(planned->x);
  program_destroy(planned->prog);
}

static int count_kind(const schedule *schedule, command_kind kind) {
  int n = 0;
  for (uint32_t i = 0; i < schedule->n_commands; i++) n += schedule->commands[i].kind == kind;
  return n;
}

#define CHAIN                                      \
  PROGRAM(T("x") "," T("y") "," T("a") "," T("b"), \
          ADD("a", 0, 1, 2) "," ADD("b", 2, 2, 3) "," ADD("y", 3, 3, 1))

/* Sessions share an executable only if all its options are equal. */
static void executables_are_told_apart(void **state) {
  (void)state;
  static const executable_options none,
      others[] = {{.unfused = true}, {.fast = true}, {.partial = true}};
  null_device devices[2];
  device_set set = null_devices(devices, 2), first = set, strict = set;
  executable *executable;
  program *program = program_of(CHAIN);
  first.count = 1;
  strict.no_fallback = true;
  good(executable_create(program, &set, &none, &executable));
  assert_true(executable_is_of(executable, &set, &none));
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    assert_false(executable_is_of(executable, &set, &others[i]));
  assert_false(executable_is_of(executable, &first, &none));
  assert_false(executable_is_of(executable, &strict, &none));
  executable_destroy(executable);
  program_destroy(program);
}

/* ---------------------------------------------------------------- passes and views */

static void chains_become_one_command(void **state) {
  (void)state;
  planned fused = plan_text(CHAIN, 1, false);
  assert_int_equal(fused.p->n_commands, 1);
  assert_int_equal(fused.x->methods[0].graph.n, 1);
  assert_int_equal(fused.x->methods[0].graph.source[0], 2);
  forget(&fused);
  planned apart = plan_text(CHAIN, 1, true);
  assert_int_equal(apart.p->n_commands, 3);
  forget(&apart);
}

#define VIEWED                                        \
  PROGRAM(T("x") "," TT("y") "," TT("t") "," TT("s"), \
          TRANSPOSE("t", 0, 2) "," ADD("s", 2, 1, 3) "," SOFTMAX("y", 3, 1))

static void views_cost_nothing(void **state) {
  (void)state;
  planned planned = plan_text(VIEWED, 1, true);
  assert_int_equal(planned.p->n_commands, 2);
  assert_int_equal(planned.p->at[2].storage, planned.p->at[0].storage);
  assert_int_equal(planned.p->at[2].t.strides[0], 1);
  assert_int_equal(planned.p->at[2].t.strides[1], 6);
  forget(&planned);
}

#define VIEW_OUT PROGRAM(T("x") "," TT("y"), TRANSPOSE("y", 0, 1))

static void outputs_alias_nothing(void **state) {
  (void)state;
  planned planned = plan_text(VIEW_OUT, 1, false);
  assert_int_equal(planned.p->n_commands, 1);
  assert_int_equal(planned.p->commands[0].kind, COMMAND_COPY);
  assert_int_not_equal(planned.p->at[1].storage, planned.p->at[0].storage);
  forget(&planned);
}

/* ---------------------------------------------------------------- memory */

#define LONG_CHAIN                                            \
  PROGRAM(T("x") "," T("y") "," T("a") "," T("b") "," T("c"), \
          SOFTMAX("a", 0, 2) "," SOFTMAX("b", 2, 3) "," SOFTMAX("c", 3, 4) "," SOFTMAX("y", 4, 1))

/* Three buffers, of 96 bytes in 128-byte units, suffice for a chain of any length: one is read, one
 * written, and one keeps the input for the next run. */
static void memory_is_used_again(void **state) {
  (void)state;
  planned planned = plan_text(LONG_CHAIN, 1, false);
  assert_int_equal(planned.p->n_commands, 4);
  assert_int_equal(schedule_arena_bytes(planned.p), 2 * 128 + NULL_SCRATCH);
  const storage *storage = &planned.p->storages[planned.p->at[1].storage];
  assert_int_equal(planned.p->blocks[storage->block[0]].a.last, FOREVER);
  forget(&planned);
}

/* Updates change in place first a tensor that no later op reads, then the input, which is read. */
#define UPDATE(name, x, u, out)                                                   \
  "{'op_type': 'SliceUpdate', 'op': {'x': {'idx': " #x "}, 'update': {'idx': " #u \
  "}, 'axis': 0, 'start': {'literal': 0}, 'out': {'idx': " #out "}}, 'name': '" name "'}"
#define UPDATED \
  PROGRAM(T("x") "," T("y") "," T("a") "," T("b") "," T("c"),                                 \
          SOFTMAX("a", 0, 2) "," UPDATE("b", 2, 0, 3) "," UPDATE("c", 0, 3, 4) ","            \
          "{'op_type': 'Elementwise', 'op': {'inputs': [{'idx': 4}, {'idx': 0}], 'steps': "   \
          "[{'kind': 'add', 'operands': [{}, {'index': 1}]}], 'out': {'idx': 1}}, 'name': 'y'}")

static void changes_are_in_place_where_nobody_looks(void **state) {
  (void)state;
  planned planned = plan_text(UPDATED, 1, false);
  const schedule *schedule = planned.p;
  assert_int_equal(schedule->storages[schedule->at[3].storage].block[0],
                   schedule->storages[schedule->at[2].storage].block[0]);
  assert_int_not_equal(schedule->storages[schedule->at[4].storage].block[0],
                       schedule->storages[schedule->at[0].storage].block[0]);
  assert_int_equal(count_kind(schedule, COMMAND_COPY), 1);
  forget(&planned);
}

#define OPERAND_TWICE                              \
  PROGRAM(T("x") "," T("y") "," T("a") "," T("b"), \
          SOFTMAX("a", 0, 2) "," UPDATE("b", 2, 2, 3) "," ADD("y", 3, 1, 1))
#define OLD_VALUE                                         \
  PROGRAM(                                                \
      T("x") "," T("y") "," T("a") "," T("b") "," T("c"), \
      SOFTMAX("a", 0, 2) "," UPDATE("b", 2, 0, 3) "," SOFTMAX("c", 2, 4) "," ADD("y", 3, 1, 1))
#define VIEW_OF_OLD_VALUE                                                                   \
  PROGRAM(T("x") "," T("y") "," T("a") "," TT("t") "," T("b") "," TT("s"),                  \
          SOFTMAX("a", 0, 2) "," TRANSPOSE("t", 2, 3) "," UPDATE("b", 2, 0, 4) "," SOFTMAX( \
              "s", 3, 5) "," ADD("y", 4, 1, 1))
#define CHANGED_VIEW                                                                       \
  PROGRAM(T("x") "," TT("y") "," T("a") "," TT("t") "," TT("u") "," TT("b"),               \
          SOFTMAX("a", 0, 2) "," TRANSPOSE("t", 2, 3) "," TRANSPOSE("u", 0, 4) "," UPDATE( \
              "b", 3, 4, 5) "," ADD("y", 5, 1, 1))
#define BEFORE_AN_ITEM                                                                       \
  PROGRAM_WITH("'values': [{'type': 'float_'}], ",                                           \
               T("x") "," T("y") "," T("a") "," T("c") "," T("d") ", {'name': 'm'}",         \
               SOFTMAX("a", 0, 2) "," SOFTMAX("c", 0, 3) "," SOFTMAX("d", 3, 4) "," MAXIMUM( \
                   "m", 4, 5) "," ITEM("i", 5, 0) "," ADD("y", 2, 1, 1),                     \
               "")
#define SWAPPED_STATES                                                                       \
  PROGRAM_WITH("'n_state': 2, ", T("x") "," T("y") "," T("s") "," T("t"), ADD("y", 0, 1, 1), \
               STORE(2, 3) "," STORE(3, 2))

/* Programs with a value that must survive while another is changed in place, freed or stored. */
static const char *const kept[] = {OPERAND_TWICE, OLD_VALUE,      VIEW_OF_OLD_VALUE,
                                   CHANGED_VIEW,  BEFORE_AN_ITEM, SWAPPED_STATES};

static void nothing_that_is_read_is_written_over(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
    for (int n = 1; n <= 3; n++) {
      print_message("program %zu, %d devices\n", i, n);
      planned planned = plan_text(kept[i], n, true);
      forget(&planned);
    }
}

/* ---------------------------------------------------------------- devices */

static void what_crosses_is_transferred_once(void **state) {
  (void)state;
  planned planned = plan_text(LONG_CHAIN, 2, false);
  const method *method = &planned.x->methods[0];
  int crossings = 0;
  for (uint32_t i = 1; i < method->graph.n; i++)
    crossings += method->where[i] != method->where[i - 1];
  assert_int_equal(count_kind(planned.p, COMMAND_TRANSFER), crossings);
  for (uint32_t i = 0; i < method->graph.n; i++) {
    assert_int_equal(method->reason[i] != NULL, method->where[i] == 1);
    if (method->reason[i]) assert_string_equal(method->reason[i], "not on this one");
  }
  forget(&planned);
}

static void no_fallback_is_an_error(void **state) {
  (void)state;
  program *prog = program_of(LONG_CHAIN);
  null_device device[2];
  device_set set = null_devices(device, 2);
  executable *executable;
  device[0].modulus = UINT64_MAX;
  set.no_fallback = true;
  clave_status st = executable_create(prog, &set, &(executable_options){0}, &executable);
  assert_non_null(st);
  assert_non_null(strstr(status_message(st), "softmax cannot run here: not on this one"));
  assert_null(executable);
  status_free(st);
  program_destroy(prog);
}

/* Every node that no device supports is listed, and none of them is an error. */
static void placement_of_what_no_device_runs(void **state) {
  (void)state;
  program *prog = program_of(LONG_CHAIN);
  null_device device[2];
  device_set set = null_devices(device, 2);
  node_placement rows[4];
  executable *executable;
  device[0].modulus = UINT64_MAX;
  set.no_fallback = true;
  good(executable_create(prog, &set, &(executable_options){.partial = true}, &executable));
  executable_placement(executable, 0, rows);
  for (int i = 0; i < 4; i++) {
    assert_string_equal(rows[i].where, "none");
    assert_string_equal(rows[i].reason, "not on this one");
    assert_false(rows[i].supported);
  }
  executable_destroy(executable);
  program_destroy(prog);
}

/* A fused node has the device of the node that computes it. */
static void placement_of_fused_nodes(void **state) {
  (void)state;
  program *prog = program_of(PROGRAM(
      T("x") "," T("y") "," T("a") "," T("b") "," TT("c"),
      ADD("a", 0, 1, 2) "," ADD("b", 2, 2, 3) "," ADD("d", 3, 3, 1) "," TRANSPOSE("c", 1, 4)));
  null_device device[2];
  device_set set = null_devices(device, 2);
  for (int fallback = 0; fallback < 2; fallback++) {
    node_placement rows[4];
    executable *executable;
    device[0].modulus = fallback ? UINT64_MAX : 1;
    good(executable_create(prog, &set, &(executable_options){0}, &executable));
    executable_placement(executable, 0, rows);
    const char *const where[] = {"fused", "fused", fallback ? "cpu" : "null", "view"};
    for (int i = 0; i < 4; i++) {
      assert_string_equal(rows[i].where, where[i]);
      assert_int_equal(rows[i].supported, i == 3 || !fallback);
      assert_int_equal(rows[i].reason != NULL, i < 3 && fallback);
    }
    executable_destroy(executable);
  }
  program_destroy(prog);
}

static void moved_instructions_have_a_reason(void **state) {
  (void)state;
  planned planned = plan_text(LONG_CHAIN, 2, false);
  const char *const reasons[5] = {NULL, "wrong numbers"}, *const *const all[] = {reasons};
  executable *executable;
  good(executable_move(planned.x, all, 1, &executable));
  assert_int_equal(executable->methods[0].where[1], 1);
  assert_string_equal(executable->methods[0].reason[1], "wrong numbers");
  for (uint32_t i = 0; i < 4; i += 2)
    assert_int_equal(executable->methods[0].where[i], planned.x->methods[0].where[i]);
  executable_destroy(executable);
  forget(&planned);
}

/* ---------------------------------------------------------------- sizes */

#define DYNAMIC(name) "{'shape': [{'vid': {'idx': 0}}], 'name': '" name "'}"
#define SIZED                                                                                     \
  "{'version': 1, 'producer': 'test', 'n_inputs': 1, 'n_outputs': 1, 'values': [{'name': 'n', "   \
  "'min': 1, 'max': 50}], 'tensors': [" DYNAMIC("x") "," DYNAMIC(                                 \
      "y") "], 'chains': [{'name': 'forward', 'instructions': [" ADD("y", 0, 1, 1) "]}], " METHOD \
                                                                                   "}"

static void schedules_are_kept_by_sizes(void **state) {
  (void)state;
  planned planned = plan_text(SIZED, 1, false);
  schedule *seen[2 * KEPT_SCHEDULES];
  for (int i = 0; i < 2 * KEPT_SCHEDULES; i++) {
    scalar_value *values = input_values(planned.prog, 0, i);
    schedule *again;
    good(schedule_find(planned.x, 0, values, false, &seen[i]));
    good(schedule_find(planned.x, 0, values, false, &again));
    assert_ptr_equal(seen[i], again);
    assert_int_equal(seen[i]->types[1].dims[0], 1 + i);
    schedule_release(planned.x, again);
    free(values);
  }
  /* The first schedules were evicted from the list, but remain valid for those who hold them. */
  scalar_value *values = input_values(planned.prog, 0, 0);
  schedule *first;
  good(schedule_find(planned.x, 0, values, false, &first));
  assert_ptr_not_equal(first, seen[0]);
  assert_int_equal(seen[0]->types[1].dims[0], 1);
  schedule_release(planned.x, first);
  for (int i = 0; i < 2 * KEPT_SCHEDULES; i++) schedule_release(planned.x, seen[i]);
  free(values);
  forget(&planned);
}

static void bounds_are_checked(void **state) {
  (void)state;
  planned planned = plan_text(SIZED, 1, false);
  scalar_value *values = input_values(planned.prog, 0, 0);
  schedule *schedule;
  values[0].i = INT64_MAX / 2;
  clave_status st = schedule_find(planned.x, 0, values, false, &schedule);
  assert_non_null(st);
  assert_null(schedule);
  status_free(st);
  free(values);
  forget(&planned);
}

/* ---------------------------------------------------------------- sizes that depend on data */

/* n = item(x); y = a tensor of n ones. */
#define COUNTED \
  "{'version': 1, 'producer': 'test', 'n_inputs': 1, 'n_outputs': 1, 'values': [{'name': 'n', "   \
  "'min': 0, 'max': 9}], 'tensors': [{'name': 'x', 'dtype': 'I64'}, " DYNAMIC("y")                \
  "], 'chains': [{'name': 'forward', 'instructions': [{'op_type': 'Item', 'op': {'x': {'idx': "   \
  "0}, 'out': {'idx': 0}}, 'name': 'n'}, {'op_type': 'Elementwise', 'op': {'steps': [{'kind': "   \
  "'copy', 'operands': [{'source': 'float_', 'f': 1}]}], 'out': {'idx': 1}}, 'name': 'y'}]}], " METHOD \
  "}"

static void what_follows_is_kept_by_value(void **state) {
  (void)state;
  planned planned = plan_text(COUNTED, 1, false);
  assert_int_equal(planned.p->reads, 0);
  schedule *seen[3], *again;
  bool made;
  for (int i = 0; i < 3; i++) {
    scalar_value value = {.known = true, .i = i};
    good(schedule_find_next(planned.x, 0, planned.p, planned.p->rest, &value, &seen[i], &made));
    assert_int_equal(seen[i]->types[1].dims[0], i);
    assert_int_equal(seen[i]->reads, NO_INDEX);
    assert_int_equal(seen[i]->number, 2);
    good(schedule_find_next(planned.x, 0, planned.p, planned.p->rest, &value, &again, &made));
    assert_false(made);
    assert_ptr_equal(again, seen[i]);
    schedule_release(planned.x, again);
  }
  for (int i = 0; i < 3; i++) schedule_release(planned.x, seen[i]);
  scalar_value fourth = {.known = true, .i = 10};
  clave_status st =
      schedule_find_next(planned.x, 0, planned.p, planned.p->rest, &fourth, &again, &made);
  assert_non_null(st);
  assert_non_null(strstr(status_message(st), "node 0 (item, n)"));
  status_free(st);
  forget(&planned);
}

#define NORM(name, x, out)                                                             \
  "{'op_type': 'RmsNorm', 'op': {'x': {'idx': " #x "}, 'eps': 1, 'out': {'idx': " #out \
  "}}, 'name': '" name "'}"
/* A branch that reads a value is planned when it runs. It gets a transposed tensor, which a later
 * op needs contiguous; the copy's location does not affect the branch. */
#define LATE \
  "{'version': 1, 'producer': 'test', 'n_inputs': 1, 'n_outputs': 1, 'values': [{'type': "        \
  "'float_'}], 'tensors': [" T("x") "," TT("y") "," TT("t") ", {'name': 'p', 'dtype': 'BOOL'}, "  \
  "{'name': 'm'}, " TT("b") "," TT("e") "," TT("v") "," TT("s") "," TT("r")                     \
  "], 'chains': [{'name': 'forward', 'instructions': [" TRANSPOSE("t", 0, 2)                     \
  ", {'op_type': 'Reduce', 'op': {'kind': 'max', 'x': {'idx': 0}, 'out': {'idx': 4}}, 'name': "   \
  "'m'}, {'op_type': 'Elementwise', 'op': {'inputs': [{'idx': 4}], 'steps': [{'kind': 'gt', "     \
  "'dtype': 'BOOL', 'operands': [{}, {'source': 'float_', 'f': 0}]}], 'out': {'idx': 3}}, "      \
  "'name': 'p'}, {'op_type': 'If', 'op': {'predicate': {'idx': 3}, 'then_chain': 1, "            \
  "'else_chain': 2, 'results': [{'idx': 9}]}, 'name': 'r'}, " NORM("s", 2, 8)                    \
  ", {'op_type': 'Elementwise', 'op': {'inputs': [{'idx': 8}, {'idx': 9}], 'steps': [{'kind': "   \
  "'add', 'operands': [{}, {'index': 1}]}], 'out': {'idx': 1}}, 'name': 'y'}]}, {'name': "       \
  "'then', 'instructions': [{'op_type': 'Item', 'op': {'x': {'idx': 4}, 'out': {'idx': 0}}, "    \
  "'name': 'i'}, {'op_type': 'Elementwise', 'op': {'inputs': [{'idx': 2}], 'steps': [{'kind': "   \
  "'add', 'operands': [{}, {'source': 'value', 'index': 0}]}], 'out': {'idx': 5}}, 'name': "     \
  "'b'}], 'results': [{'idx': 5}]}, {'name': 'else', 'instructions': [" ADD("e", 2, 1, 6)        \
  "], 'results': [{'idx': 6}]}], " METHOD "}"

static void late_bodies_see_what_was_there(void **state) {
  (void)state;
  planned planned = plan_text(LATE, 1, false);
  assert_int_equal(planned.p->n_controls, 1);
  assert_true(planned.p->controls[0]->late[0] && !planned.p->controls[0]->late[1]);
  assert_int_equal(planned.p->at[2].storage, planned.p->at[0].storage);
  assert_int_not_equal(planned.p->now[2].storage, planned.p->at[2].storage);
  range then = planned.x->methods[0].graph.bodies[planned.p->controls[0]->instruction][0];
  schedule *body, *rest;
  bool made;
  good(schedule_find_next(planned.x, 0, planned.p, (cursor){then.first, then.end, 0, 0}, NULL,
                          &body, &made));
  assert_int_equal(body->reads, then.first);
  assert_int_equal(body->now[2].storage, planned.p->at[2].storage);
  scalar_value value = {.known = true, .f = 0.5};
  good(schedule_find_next(planned.x, 0, body, body->rest, &value, &rest, &made));
  assert_int_equal(rest->now[2].storage, planned.p->at[2].storage);
  assert_int_equal(rest->n_commands - rest->first_command, 1);
  schedule_release(planned.x, rest);
  schedule_release(planned.x, body);
  forget(&planned);
}

/* ---------------------------------------------------------------- all programs there are */

typedef struct tally {
  uint32_t programs, commands;
} tally;

static void simulate_program(const program *prog, int n_devices, bool unfused, tally *tally) {
  null_device device[3];
  device_set set = null_devices(device, n_devices);
  executable *executable;
  good(executable_create(prog, &set, &(executable_options){.unfused = unfused}, &executable));
  for (uint32_t k = 0; k < prog->ir.methods.count; k++)
    for (int64_t size = 0; size < 4; size += 3) {
      scalar_value *values = input_values(prog, k, size);
      uint32_t commands;
      simulate(executable, k, values, &commands);
      tally->commands += commands;
      free(values);
    }
  executable_destroy(executable);
}

static bool is_small(const program *program) {
  for (uint32_t i = 0; i < program->ir.tensors.count; i++) {
    size_t bytes;
    tensor tensor = program->types[i];
    for (int k = 0; k < tensor.rank; k++)
      if (tensor.dims[k] == DIM_UNKNOWN) tensor.dims[k] = 8;
    if (!tensor_bytes(&tensor, &bytes) || bytes > 1 << 16) return false;
  }
  return program->ir.methods.count && program->ir.tensors.count < 200;
}

static void found_programs(void **state) {
  (void)state;
  const char *folder = "test/fuzz/found/run";
  DIR *listing = opendir(folder);
  struct dirent *entry;
  tally tally = {0};
  assert_non_null(listing);
  while ((entry = readdir(listing))) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    program *program = entry->d_name[0] == '.' ? NULL : program_of_file(path);
    if (program && is_small(program)) {
      tally.programs++;
      for (int n = 1; n <= 3; n++) simulate_program(program, n, n == 2, &tally);
    }
    program_destroy(program);
  }
  closedir(listing);
  print_message("%u programs, %u commands\n", tally.programs, tally.commands);
  assert_true(tally.programs > 100 && tally.commands > 1000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(executables_are_told_apart),
      cmocka_unit_test(chains_become_one_command),
      cmocka_unit_test(views_cost_nothing),
      cmocka_unit_test(outputs_alias_nothing),
      cmocka_unit_test(memory_is_used_again),
      cmocka_unit_test(changes_are_in_place_where_nobody_looks),
      cmocka_unit_test(nothing_that_is_read_is_written_over),
      cmocka_unit_test(what_crosses_is_transferred_once),
      cmocka_unit_test(no_fallback_is_an_error),
      cmocka_unit_test(placement_of_what_no_device_runs),
      cmocka_unit_test(placement_of_fused_nodes),
      cmocka_unit_test(moved_instructions_have_a_reason),
      cmocka_unit_test(schedules_are_kept_by_sizes),
      cmocka_unit_test(bounds_are_checked),
      cmocka_unit_test(what_follows_is_kept_by_value),
      cmocka_unit_test(late_bodies_see_what_was_there),
      cmocka_unit_test(found_programs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
