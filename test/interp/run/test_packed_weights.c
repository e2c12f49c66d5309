/* Packed weights: a device that reads the weight of a product packed packs it once, for all runs,
 * sizes and sessions, and never packs an operand that is not constant. */
#include <unistd.h>

#include "api/internal.h"
#include "clave_builder.h"
#include "interp/null_device.h"

enum { IN = 6, OUT = 5, PACKED_BYTES = 4096, PACKED_MARK = 0x5a };

/* ---------------------------------------------------------------- a device that packs */

/* State of a CPU backend whose products request their b packed. */
static struct {
  const backend_vtable *vt; /* store of the CPU backend */
  int packs, runs;          /* packed weights made; products run with one */
  bool fails, is_slow;      /* true if packing takes more than a second */
  bool asks_packs;          /* true if the self-check has requested kernels that pack */
  packed_weight_request last;
} packing;

typedef struct pack_recording {
  recording base;
  uint32_t slot; /* slot of the packed constant */
} pack_recording;

/* Records without packed weights, by hiding from the CPU backend that b is constant. */
static clave_status record_plain(backend *backend, const node *node, bool fast, recording **out) {
  const ir_matmul *op = node->instruction->op;
  bound_tensor *tensor = (bound_tensor *)&node->tensors[op->b];
  bool is_constant = tensor->is_constant;
  tensor->is_constant = false;
  clave_status st = packing.vt->record(backend, node, fast, out);
  tensor->is_constant = is_constant;
  return st;
}

static clave_status record(backend *backend, const node *node, bool fast, recording **out) {
  if (node->instruction->op_type != IR_OP_MATMUL)
    return packing.vt->record(backend, node, fast, out);
  TRY(record_plain(backend, node, fast, out));
  const ir_matmul *op = node->instruction->op;
  const bound_tensor *tensor = &node->tensors[op->b];
  if (!tensor->is_constant) return NULL;
  pack_recording *pack = calloc(1, sizeof *pack);
  assert_non_null(pack);
  pack->slot = tensor->slot;
  recording *recording = *out;
  recording->n_weights = 1;
  recording->weights[0] = (packed_weight_request){.constant = tensor->constant,
                                                  .view = tensor->tensor,
                                                  .kind = 7,
                                                  .size = {3},
                                                  .bytes = PACKED_BYTES,
                                                  .pack = &pack->base};
  packing.last = recording->weights[0];
  return NULL;
}

static void recording_destroy(backend *backend, recording *recording) {
  for (int i = 0; recording && i < recording->n_weights; i++) free(recording->weights[i].pack);
  if (recording) recording->n_weights = 0;
  packing.vt->recording_destroy(backend, recording);
}

static const char *data_of(stream *stream, const buffer *buffer) {
  static char bytes[PACKED_BYTES];
  good(packing.vt->read(stream, buffer, 0, bytes, sizeof bytes));
  return bytes;
}

static clave_status pack(stream *stream, const packed_weight_request *request,
                         const bound_tensor *operands, bool clears, buffer *to) {
  char mark[PACKED_BYTES];
  (void)clears;
  if (packing.fails) return status_new(STATUS_DEVICE, "it does not pack today");
  if (operands) assert_non_null(operands[((const pack_recording *)request->pack)->slot].buf);
  memset(mark, PACKED_MARK, sizeof mark);
  __atomic_add_fetch(&packing.packs, 1, __ATOMIC_RELAXED);
  if (packing.is_slow) (void)usleep(1100000);
  return packing.vt->write(stream, to, 0, mark, request->bytes);
}

static clave_status run(stream *stream, const recording *recording, void **state,
                        const run_operands *operands, uint32_t number) {
  if (recording->n_weights) {
    const char *weight = data_of(stream, operands->weights[0]);
    assert_true(weight[0] == PACKED_MARK && weight[PACKED_BYTES - 1] == PACKED_MARK);
    __atomic_add_fetch(&packing.runs, 1, __ATOMIC_RELAXED);
  }
  return packing.vt->run(stream, recording, state, operands, number);
}

static clave_status is_unproven(stream *stream, const recording *recording, bool packs,
                                bool *unproven) {
  (void)stream;
  if (recording->n_weights) packing.asks_packs = packs;
  *unproven = false;
  return NULL;
}

static backend *open_packing(void) {
  static const backend_proof proof = {.is_unproven = is_unproven};
  static backend_vtable vt;
  backend *backend;
  memset(&packing, 0, sizeof packing);
  good(cpu_backend_create(1, &backend));
  packing.vt = backend->vt;
  vt = *backend->vt;
  vt.record = record;
  vt.recording_destroy = recording_destroy;
  vt.run = run;
  vt.pack = pack;
  vt.proof = &proof;
  backend->vt = &vt;
  backend->info.weight_layout = "test 1";
  return backend;
}

/* ---------------------------------------------------------------- a program */

/* Returns the program y = x w', or x v' if the weight is an input. */
static clave_program *linear(bool is_constant) {
  static float weights[OUT * IN];
  const int64_t shape[] = {OUT, IN}, turned[] = {IN, OUT}, in[] = {0, IN}, out[] = {0, OUT};
  clave_tensor tensor = clave_tensor_make(CLAVE_F32, 2, shape, weights);
  clave_builder *builder;
  clave_program *program;
  for (int i = 0; i < OUT * IN; i++) weights[i] = (float)i;
  good(clave_builder_create(&builder));
  const clave_id values[] = {clave_builder_value(builder, "batch", CLAVE_I64, 1, 8), 0};
  clave_id y = clave_builder_tensor(builder, CLAVE_SLOT_OUTPUT, "y", CLAVE_F32, 2, out, values),
           wt = clave_builder_tensor(builder, CLAVE_SLOT_TEMPORARY, "", CLAVE_F32, 2, turned, NULL),
           x = clave_builder_tensor(builder, CLAVE_SLOT_INPUT, "x", CLAVE_F32, 2, in, values),
           given = clave_builder_tensor(builder, CLAVE_SLOT_INPUT, "w", CLAVE_F32, 2, shape, NULL),
           weight = is_constant ? clave_builder_constant(builder, "weight", &tensor, true) : given;
  clave_builder_method(builder, "forward");
  clave_builder_input(builder, "x", x);
  clave_builder_input(builder, "w", given);
  clave_builder_op(builder, "Permute", "t");
  clave_builder_set_tensor(builder, "x", weight);
  clave_builder_set_ints(builder, "dims", (const int32_t[]){1, 0}, 2);
  clave_builder_set_tensor(builder, "out", wt);
  clave_builder_op(builder, "matmul", "product");
  clave_builder_set_tensor(builder, "a", x);
  clave_builder_set_tensor(builder, "b", wt);
  clave_builder_set_tensor(builder, "out", y);
  clave_builder_output(builder, "y", y);
  good(clave_builder_finish(builder, &program));
  clave_builder_destroy(builder);
  return program;
}

typedef struct opened {
  clave_program *prog;
  backend *device;
  constant_store *store;
  executable *x;
} opened;

static opened open_linear(bool is_constant) {
  opened opened = {.prog = linear(is_constant), .device = open_packing()};
  device_set set = {.backends = {opened.device}, .count = 1};
  good(executable_create(opened.prog->program, &set, &(executable_options){0}, &opened.x));
  good(constant_store_create(opened.prog->program, opened.device, &opened.store));
  return opened;
}

static void close_linear(opened *opened) {
  executable_destroy(opened->x);
  constant_store_destroy(opened->store);
  opened->device->vt->destroy(opened->device);
  clave_program_destroy(opened->prog);
}

static session *new_session(const opened *opened, uint64_t budget) {
  session *session;
  good(session_create(opened->x, &opened->store, &(session_options){.memory_budget = budget},
                      &session));
  return session;
}

static clave_status run_rows(session *session, int64_t rows) {
  static float data[8 * IN] = {1, 2, 3, 4, 5, 6, 7}, given[OUT * IN];
  host_tensor tensor = {.t = {.type = DTYPE_F32, .rank = 2, .dims = {rows, IN}}, .data = data},
              host_tensor = {.t = {.type = DTYPE_F32, .rank = 2, .dims = {OUT, IN}}, .data = given};
  tensor_set_contiguous(&tensor.t);
  tensor_set_contiguous(&host_tensor.t);
  TRY(session_set_input(session, 0, 0, &tensor));
  TRY(session_set_input(session, 0, 1, &host_tensor));
  return session_run(session, 0);
}

/* ---------------------------------------------------------------- tests */

static void a_constant_is_packed_once(void **state) {
  (void)state;
  opened opened = open_linear(true);
  session *session = new_session(&opened, 0), *own = new_session(&opened, 0);
  for (int i = 0; i < 3; i++) {
    good(run_rows(session, 2));
    good(run_rows(session, 5));
    good(run_rows(own, 5));
    good(run_rows(own, 1));
  }
  assert_int_equal(packing.packs, 1);
  assert_int_equal(packing.runs, 12);
  assert_true(packing.asks_packs);
  assert_int_equal(constant_store_packed_bytes(opened.store), PACKED_BYTES);
  assert_int_equal(constant_store_bytes(opened.store), PACKED_BYTES + OUT * IN * sizeof(float));
  const tensor *tensor = &packing.last.view; /* the turned weight */
  assert_true(tensor->dims[0] == IN && tensor->dims[1] == OUT && tensor->strides[0] == 1 &&
              tensor->strides[1] == IN);
  session_destroy(session);
  session_destroy(own);
  close_linear(&opened);
}

static void inputs_are_not_packed(void **state) {
  (void)state;
  opened opened = open_linear(false);
  session *session = new_session(&opened, 0);
  good(run_rows(session, 3));
  assert_int_equal(packing.packs + packing.runs, 0);
  assert_int_equal(constant_store_packed_bytes(opened.store), 0);
  session_destroy(session);
  close_linear(&opened);
}

/* A session runs without packed weights if it lacks memory for them; one with enough uses them. */
static void packed_weights_are_in_the_budget(void **state) {
  (void)state;
  opened opened = open_linear(true);
  session *none = new_session(&opened, 64), *small = new_session(&opened, PACKED_BYTES),
          *enough = new_session(&opened, 2 * PACKED_BYTES);
  clave_status st = run_rows(none, 2);
  assert_non_null(st);
  assert_non_null(strstr(status_message(st), "needs"));
  status_free(st);
  for (int i = 0; i < 2; i++) {
    good(run_rows(small, 2));
    assert_int_equal(packing.packs + packing.runs, 0);
  }
  good(run_rows(enough, 2));
  assert_int_equal(packing.packs, 1);
  good(run_rows(small, 2));
  good(run_rows(small, 3));
  assert_int_equal(packing.runs, 1);
  session_destroy(none);
  session_destroy(small);
  session_destroy(enough);
  close_linear(&opened);
}

static void packing_that_fails_is_tried_again(void **state) {
  (void)state;
  opened opened = open_linear(true);
  session *session = new_session(&opened, 0);
  packing.fails = true;
  clave_status st = run_rows(session, 2);
  assert_non_null(strstr(status_message(st), "it does not pack today"));
  assert_non_null(strstr(status_message(st), "a packed weight of constant 'weight'"));
  status_free(st);
  assert_int_equal(constant_store_packed_bytes(opened.store), 0);
  packing.fails = false;
  good(run_rows(session, 2));
  assert_int_equal(packing.packs, 1);
  session_destroy(session);
  close_linear(&opened);
}

/* ---------------------------------------------------------------- packed ahead */

static constant_store *new_store(const opened *opened) {
  constant_store *store;
  good(constant_store_create(opened->prog->program, opened->device, &store));
  return store;
}

/* Opens a program with a weight that is already packed for the device, like one from a file. */
static opened open_packed(void) {
  opened opened = open_linear(true);
  session *session = new_session(&opened, 0);
  good(session_pack(session, 0));
  assert_int_equal(packing.packs, 1);
  assert_int_equal(packing.runs, 0);
  session_destroy(session);
  good(constant_store_keep_packed(opened.store, opened.prog->program));
  assert_int_equal(opened.prog->program->n_packed_weights, 1);
  constant_store_destroy(opened.store);
  opened.store = new_store(&opened);
  packing.packs = 0;
  return opened;
}

static void packed_weights_of_the_program_are_taken(void **state) {
  (void)state;
  opened opened = open_packed();
  session *session = new_session(&opened, 0), *own = new_session(&opened, 0);
  for (int i = 0; i < 2; i++) {
    good(run_rows(session, 2));
    good(run_rows(own, 5));
  }
  assert_int_equal(packing.packs, 0);
  assert_int_equal(packing.runs, 4);
  assert_false(packing.asks_packs); /* the self-check did not pack them */
  assert_int_equal(constant_store_packed_bytes(opened.store), PACKED_BYTES);
  assert_int_equal(constant_store_in_place_bytes(opened.store), constant_store_bytes(opened.store));
  session_memory memory;
  session_memory_use(session, &memory);
  assert_int_equal(memory.constant_bytes_in_place, memory.constant_bytes);
  session_destroy(session);
  session_destroy(own);
  good(constant_store_keep_packed(opened.store, opened.prog->program)); /* the program has it */
  assert_int_equal(opened.prog->program->n_packed_weights, 1);
  close_linear(&opened);
}

static void those_for_other_devices_are_not_taken(void **state) {
  (void)state;
  opened opened = open_packed();
  opened.device->info.weight_layout = "test 2";
  session *session = new_session(&opened, 0);
  good(run_rows(session, 2));
  assert_int_equal(packing.packs, 1);
  assert_int_equal(constant_store_in_place_bytes(opened.store),
                   constant_store_bytes(opened.store) - PACKED_BYTES);
  session_destroy(session);
  opened.device->info.weight_layout = NULL;
  constant_store_destroy(opened.store);
  opened.store = new_store(&opened);
  session = new_session(&opened, 0);
  good(run_rows(session, 2));
  assert_int_equal(packing.packs, 2);
  session_destroy(session);
  close_linear(&opened);
}

static void keep_note(void *ctx, const char *line) {
  assert_null(*(char **)ctx);
  *(char **)ctx = strdup(line);
}

/* The self-check, on by default, detects damaged ones; without it the file is trusted. */
static void damaged_ones_are_packed_anew(void **state) {
  (void)state;
  opened opened = open_packed();
  char *note = NULL;
  session *session;
  ((char *)opened.prog->program->packed_weights[0].own)[PACKED_BYTES / 2] ^= 1;
  const session_options options = {.message = keep_note, .message_ctx = &note};
  good(session_create(opened.x, &opened.store, &options, &session));
  good(run_rows(session, 2));
  good(run_rows(session, 3));
  assert_int_equal(packing.packs, 1);
  assert_string_equal(note,
                      "the packed weight of constant 'weight' in the program's file is damaged "
                      "(hash) and is packed again");
  free(note);
  session_destroy(session);
  good(constant_store_keep_packed(opened.store, opened.prog->program));
  assert_int_equal(opened.prog->program->n_packed_weights, 1);
  assert_true(program_packed_weight_is_whole(&opened.prog->program->packed_weights[0]));
  ((char *)opened.prog->program->packed_weights[0].own)[PACKED_BYTES / 2] ^= 1;
  good(session_create(opened.x, &opened.store, &(session_options){.unchecked = true}, &session));
  good(run_rows(session, 2));
  assert_int_equal(packing.packs, 1);
  session_destroy(session);
  close_linear(&opened);
}

static void packing_needs_memory(void **state) {
  (void)state;
  opened opened = open_linear(true);
  session *session;
  const session_options options = {.memory_budget = PACKED_BYTES, .packs = true};
  good(session_create(opened.x, &opened.store, &options, &session));
  clave_status st = session_pack(session, 0);
  assert_non_null(strstr(status_message(st), "needs 0.0 MB on "));
  assert_non_null(
      strstr(status_message(st), "which has 0.0 MB; use smaller inputs, a smaller batch or"));
  status_free(st);
  session_destroy(session);
  close_linear(&opened);
}

typedef struct told {
  int calls, done, total;
} told;

static void keep_told(void *ctx, const char *what, int done, int total) {
  assert_string_equal(what, "packing weights");
  *(told *)ctx = (told){((told *)ctx)->calls + 1, done, total};
}

static void long_packing_is_told(void **state) {
  (void)state;
  opened opened = open_linear(true);
  told told = {0};
  session *session;
  const session_options options = {.progress = keep_told, .progress_ctx = &told};
  good(session_create(opened.x, &opened.store, &options, &session));
  packing.is_slow = true;
  good(run_rows(session, 2));
  assert_true(told.calls == 1 && told.done == 1 && told.total == 1);
  good(run_rows(session, 3));
  assert_int_equal(told.calls, 1);
  session_destroy(session);
  close_linear(&opened);
}

static pack_recording no_launches;
static const packed_weight_request some_request = {
    .view = {.type = DTYPE_F32, .rank = 1, .dims = {4}, .strides = {1}},
    .kind = 1,
    .size = {1, 2, 3},
    .bytes = 64,
    .pack = &no_launches.base};

static buffer *pack_one(const opened *opened, const packed_weight_request *request) {
  packing_means means = {0};
  const packed_weight *made;
  bool is_damaged;
  good(opened->device->vt->stream_create(opened->device, &means.stream));
  good(constant_store_pack(opened->store, &means, request, &made, &is_damaged));
  opened->device->vt->stream_destroy(opened->device, means.stream);
  assert_false(is_damaged);
  assert_true(!made || (made->is_packed_here && made->buf->bytes == 64 && !made->request.pack));
  return made ? made->buf : NULL;
}

/* Each view, kind and size has a separate packed weight. */
static void packed_weights_are_told_apart(void **state) {
  (void)state;
  opened opened = open_linear(true);
  const packed_weight_request request = some_request;
  packed_weight_request requests[] = {request, request, request, request,
                                      request, request, request};
  enum { N = sizeof requests / sizeof *requests };
  buffer *made[N];
  requests[1].view.offset = 1;
  requests[2].view.strides[0] = 2;
  requests[3].view.dims[0] = 3;
  requests[4].kind = 2;
  requests[5].size[2] = 4;
  requests[6].view.type = DTYPE_I32;
  for (int i = 0; i < N; i++) {
    assert_false(constant_store_has_packed(opened.store, &requests[i]));
    made[i] = pack_one(&opened, &requests[i]);
    assert_int_equal(packing.packs, i + 1);
  }
  for (int i = 0; i < N; i++)
    assert_true(pack_one(&opened, &requests[i]) == made[i] && packing.packs == N);
  close_linear(&opened);
}

/* Packed bytes are opaque: only the backend that made them interprets them. */
static void packed_weights_of_others_are_found(void **state) {
  (void)state;
  opened opened = open_linear(true);
  packed_weight_request request = some_request;
  request.pack = NULL;
  assert_null(pack_one(&opened, &request));
  buffer *made = pack_one(&opened, &some_request);
  request.bytes = 0;
  assert_ptr_equal(pack_one(&opened, &request), made);
  packed_weight_request others[] = {request, request, request, request};
  others[0].view.offset = 1;
  others[1].kind = 2;
  others[2].size[2] = 4;
  others[3].constant++;
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    assert_null(pack_one(&opened, &others[i]));
  close_linear(&opened);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_constant_is_packed_once),
      cmocka_unit_test(inputs_are_not_packed),
      cmocka_unit_test(packed_weights_are_in_the_budget),
      cmocka_unit_test(packing_that_fails_is_tried_again),
      cmocka_unit_test(packed_weights_are_told_apart),
      cmocka_unit_test(packed_weights_of_others_are_found),
      cmocka_unit_test(packed_weights_of_the_program_are_taken),
      cmocka_unit_test(those_for_other_devices_are_not_taken),
      cmocka_unit_test(damaged_ones_are_packed_anew),
      cmocka_unit_test(packing_needs_memory),
      cmocka_unit_test(long_packing_is_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
