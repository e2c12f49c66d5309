/* Tests kernel launches: arguments by name, wrong arguments, and reused programs. */
#include "backend/opencl_fixture.h"

static void test_launch(void **state) {
  (void)state;
  session session = open_session(NULL, NULL);
  bound_tensor out = vector_of(&session, DTYPE_F32, 1000, NULL);
  for (int i = 0; i < 3; i++) {
    good(fill(&session, &out, i));
    check_filled(&session, &out, (float)i);
  }
  assert_int_equal(((cl_device *)session.device)->n_programs, 1); /* found again */
  session.device->vt->buffer_destroy(session.device, out.buf);
  close_session(&session);
}

/* Writes the signature of a kernel that is generated at run time. */
static clave_status write_signature(const void *ctx, text *source, arg_info *args, int *n_args) {
  static const arg_info all[] = {{.name = "out", .kind = ARG_BUFFER},
                                 {.name = "out_offset", .kind = ARG_LONG},
                                 {.name = "n", .kind = ARG_INDEX},
                                 {.name = "x", .kind = ARG_FLOAT}};
  (void)ctx;
  memcpy(args, all, sizeof all);
  *n_args = 4;
  text_printf(source, "#include \"common.h\"\n__kernel void made(FAULT_PARAMS) {}\n");
  return text_status(source);
}

/* A session, a recorder and a node to record launches with. */
typedef struct scene {
  session s;
  recorded r;
  cl_recorder recorder;
  node n;
  bound_tensor out; /* 10 floats */
} scene;

static void open_scene(scene *scene) {
  scene->s = open_session(NULL, NULL);
  scene->recorder = new_recorder(&scene->s, &scene->r);
  scene->n = (node){.cache = &scene->r.cache};
  scene->out = vector_of(&scene->s, DTYPE_F32, 10, NULL);
}

static void close_scene(scene *scene) {
  free_recorded(&scene->r);
  scene->s.device->vt->buffer_destroy(scene->s.device, scene->out.buf);
  close_session(&scene->s);
}

static launch begin_made(scene *scene) {
  launch launch;
  launch_begin(&launch, &scene->recorder, &scene->n);
  launch_generated(&launch, "made", write_signature, NULL);
  return launch;
}

/* Arguments of a generated kernel in the wrong order, too many or too few are errors. */
static void test_wrong_launches(void **state) {
  (void)state;
  scene scene;
  open_scene(&scene);
  launch launch = begin_made(&scene);
  for (int i = 0; i < 3; i++) launch_push_int(&launch, 3);
  launch_push_float(&launch, 3);
  bad(launch_items(&launch, 1), "kernel made argument 0 (out) is a buffer, got 3");
  launch = begin_made(&scene);
  launch_push_buffer(&launch, buffer_arg(&scene.out));
  bad(launch_items(&launch, 1), "kernel made argument 2 (n) is missing");
  launch_push_float(&launch, 3);
  launch_push_int(&launch, 3);
  bad(launch_items(&launch, 1), "kernel made argument 2 (n) is index_t, got a float");
  launch_push_float(&launch, 3);
  bad(launch_items(&launch, 1), "kernel made: expected 4 arguments, got 5");
  for (int i = 0; i < 100; i++) launch_push_int(&launch, 3);
  bad(launch_items(&launch, 1), "more than");
  launch = begin_made(&scene);
  launch_push_buffer(&launch, buffer_arg(&scene.out));
  launch_push_int(&launch, 3);
  launch_push_int(&launch, 3);
  bad(launch_items(&launch, 1), "kernel made argument 3 (x) is float, got 3");
  close_scene(&scene);
}

/* Tests errors that the C compiler cannot detect: numbers that do not fit, no arguments. */
static void test_wrong_numbers(void **state) {
  (void)state;
  scene scene;
  open_scene(&scene);
  const arg_buffer to = buffer_arg(&scene.out);
  launch launch;
  launch_begin(&launch, &scene.recorder, &scene.n);
  bad(launch_items(&launch, 1), "a launch has no arguments");
  if (!recorder_traits(&scene.recorder)->always_wide) {
    launch_begin(&launch, &scene.recorder, &scene.n);
    launch_args(&launch, &(full_args){.out = to, .n = INT64_MAX, .value = 3, .int_value = 3});
    bad(launch_items(&launch, 1), "kernel full argument 2 (n) is index_t, got 9223372036854775807");
  }
  for (int64_t stream = -1; stream <= INT64_C(1) << 32; stream += (INT64_C(1) << 32) + 1) {
    launch_begin(&launch, &scene.recorder, &scene.n);
    launch_args(&launch,
                &(random_args){.out = to, .n = 10, .stream = stream, .low = 0, .range = 1});
    bad(launch_items(&launch, 1), "kernel random argument 3 (stream) is uint, got ");
  }
  good(fill(&scene.s, &scene.out, 4));
  check_filled(&scene.s, &scene.out, 4);
  close_scene(&scene);
}

/* Returns the value of the kernel's parameter of that name. */
static const launch_value *value_of(const launch *launch, const char *name) {
  for (int i = 0; i < launch->signature->n_args; i++)
    if (strcmp(launch->signature->args[i].name, name) == 0) return &launch->values[i];
  fail_msg("there is no %s", name);
  return NULL;
}

/* Each argument is passed to the parameter of its name in any order, also arguments in a group. */
static void test_arguments_by_name(void **state) {
  (void)state;
  scene scene;
  open_scene(&scene);
  const bound_tensor tensor = {.slot = 5, .tensor = {.type = DTYPE_F32, .offset = 7}};
  const arg_index8 index8 = {{3, 4, 5, 6, 7, 8, 9, 10}}, arg_index8 = {{11, 1, 1, 1, 1, 1, 1, 12}};
  launch launch;
  launch_begin(&launch, &scene.recorder, &scene.n);
  launch_args(&launch,
              &(gemv_rows_args){
                  .scratch = local_arg(64),
                  .each = 4,
                  .gemm = {.beta = 0.5,
                           .alpha = 2,
                           .a = buffer_arg(&tensor),
                           .a_batch = index8,
                           .a_m = 11,
                           .a_k = 12,
                           .bias = absent_arg(),
                           .bias_batch = arg_index8,
                           .bias_m = 16,
                           .bias_n = 17,
                           .out = buffer_arg(&tensor),
                           .batch_dims = index8,
                           .m_size = 18,
                           .n_size = 19,
                           .k_size = 20},
                  .dense = {.b = scratch_arg(13), .b_batch = arg_index8, .b_k = 14, .b_n = 15}});
  assert_string_equal(launch.kernel, "gemv_rows");
  assert_int_equal(launch.n_values, launch.signature->n_args);
  assert_int_equal(value_of(&launch, "a")->kind, VALUE_OPERAND);
  assert_int_equal(value_of(&launch, "a")->as.operand.slot, 5);
  assert_int_equal(value_of(&launch, "b")->kind, VALUE_SCRATCH);
  assert_int_equal(value_of(&launch, "bias")->kind, VALUE_ABSENT);
  static const struct {
    const char *name;
    int64_t value;
  } integers[] = {{"a_offset", 7}, {"a_m", 11},    {"a_k", 12},    {"b_offset", 13},
                  {"b_k", 14},     {"b_n", 15},    {"bias_m", 16}, {"bias_n", 17},
                  {"m_size", 18},  {"n_size", 19}, {"k_size", 20}, {"each", 4}};
  for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
    const launch_value *launch_value = value_of(&launch, integers[i].name);
    assert_int_equal(launch_value->kind, VALUE_INT);
    assert_int_equal(launch_value->as.i, integers[i].value);
  }
  assert_true(value_of(&launch, "alpha")->as.f == 2 && value_of(&launch, "beta")->as.f == 0.5);
  assert_memory_equal(value_of(&launch, "a_batch")->as.i8, index8.v, sizeof index8.v);
  assert_memory_equal(value_of(&launch, "b_batch")->as.i8, arg_index8.v, sizeof arg_index8.v);
  assert_int_equal(value_of(&launch, "scratch")->as.bytes, 64);
  close_scene(&scene);
}

/* 64-bit indices are used for many elements, and for few that are far apart. */
static void test_wide(void **state) {
  (void)state;
  session session = open_session(NULL, NULL);
  bound_tensor tensor = vector_of(&session, DTYPE_F32, 10, NULL);
  static const struct {
    int64_t dims[2], strides[2];
    bool wide;
  } layouts[] = {
      {{2, 5}, {5, 1}, false},
      {{1 << 15, 1 << 15}, {1 << 15, 1}, false},
      {{1 << 16, 1 << 15}, {1 << 15, 1}, true},
      {{1 << 16, 1 << 16}, {0, 0}, true}, /* an expanded number */
      {{2, 5}, {INT64_C(1) << 31, 1}, true},
      {{2, 5}, {5, -(INT64_C(1) << 30)}, true},
  };
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
    launch launch;
    recorded recorded;
    cl_recorder recorder = new_recorder(&session, &recorded);
    const node node = {.cache = &recorded.cache};
    tensor.tensor.rank = 2;
    memcpy(tensor.tensor.dims, layouts[i].dims, sizeof layouts[i].dims);
    memcpy(tensor.tensor.strides, layouts[i].strides, sizeof layouts[i].strides);
    launch_begin(&launch, &recorder, &node);
    launch_args(&launch,
                &(full_args){.out = buffer_arg(&tensor), .n = 1, .value = 0, .int_value = 0});
    bool always = recorder_traits(&recorder)->always_wide;
    assert_int_equal(launch.wide, layouts[i].wide || always);
    free_recorded(&recorded);
  }
  session.device->vt->buffer_destroy(session.device, tensor.buf);
  close_session(&session);
}

/* A node that launches a kernel for several dtypes has one for each. */
static void test_kernel_of_each_dtype(void **state) {
  (void)state;
  session session = open_session(NULL, NULL);
  void *cache = NULL;
  for (int i = 0; i < 4; i++) {
    dtype type = i % 2 ? DTYPE_I64 : DTYPE_F32;
    bound_tensor out = vector_of(&session, type, 3, NULL);
    union {
      float f[3];
      int64_t i[3];
    } got;
    good(fill_again(&session, &cache, &out, 7 + i));
    good(session.device->vt->read(session.stream, out.buf, 0, &got, 3 * dtype_size(type)));
    for (int k = 0; k < 3; k++)
      assert_true(type == DTYPE_F32 ? got.f[k] == (float)(7 + i) : got.i[k] == 7 + i);
    session.device->vt->buffer_destroy(session.device, out.buf);
  }
  session.device->vt->building->cache_destroy(session.device, cache);
  close_session(&session);
}

/* Writes a kernel with numbers of each size, in mixed order, which stores its arguments. */
static clave_status write_report(const void *ctx, text *source, arg_info *args, int *n_args) {
  static const arg_info all[] = {{.name = "out", .type = "__global void *", .kind = ARG_BUFFER},
                                 {.name = "out_offset", .type = "long", .kind = ARG_LONG},
                                 {.name = "i", .type = "const int", .kind = ARG_INT},
                                 {.name = "r", .type = "real", .kind = ARG_REAL},
                                 {.name = "u", .type = "uint", .kind = ARG_UINT},
                                 {.name = "v", .type = "index8", .kind = ARG_INDEX8},
                                 {.name = "lane", .type = "__local long *", .kind = ARG_LOCAL},
                                 {.name = "f", .type = "float", .kind = ARG_FLOAT},
                                 {.name = "w", .type = "const ulong", .kind = ARG_ULONG},
                                 {.name = "n", .type = "const index_t", .kind = ARG_INDEX}};
  (void)ctx;
  memcpy(args, all, sizeof all);
  *n_args = sizeof all / sizeof *all;
  text_printf(source,
              "#include \"common.h\"\n__kernel void report() {\n"
              "  __global long *o = (__global long *)out + out_offset;\n  lane[0] = i;\n"
              "  o[0] = lane[0], o[1] = (long)r, o[2] = u, o[3] = v.s0, o[4] = v.s7;\n"
              "  o[5] = (long)f, o[6] = (long)w, o[7] = n;\n}\n");
  return text_status(source);
}

static void check_report(session *session, dtype compute, bool wide) {
  enum { COUNT = 8 };
  bound_tensor out = vector_of(session, DTYPE_I64, COUNT + 1, NULL);
  recorded recorded;
  cl_recorder recorder = new_recorder(session, &recorded);
  const node node = {.cache = &recorded.cache};
  const size_t one = 1;
  launch launch;
  launch_begin(&launch, &recorder, &node);
  launch_generated(&launch, "report", write_report, NULL);
  launch_compute(&launch, compute);
  if (wide) launch_wide(&launch);
  out.tensor.offset = 1;
  launch_push_buffer(&launch, buffer_arg(&out));
  launch_push_int(&launch, -2);
  launch_push_float(&launch, 3);
  launch_push_int(&launch, 4);
  launch_push_index8(&launch, (arg_index8){{5, 0, 0, 0, 0, 0, 0, -6}});
  launch.values[launch.n_values++] = (launch_value){.kind = VALUE_LOCAL, .as.bytes = 8};
  launch_push_float(&launch, -7);
  launch_push_int(&launch, 8);
  launch_push_int(&launch, 9);
  good(launch_run(&launch, 1, &one, &one));
  good(run_recorded(&recorded, &out, 0));
  int64_t got[COUNT], want[COUNT] = {-2, 3, 4, 5, -6, -7, 8, 9};
  good(session->device->vt->read(session->stream, out.buf, sizeof *got, got, sizeof got));
  assert_memory_equal(got, want, sizeof want);
  free_recorded(&recorded);
  session->device->vt->buffer_destroy(session->device, out.buf);
}

static void test_numbers_reach_the_kernel(void **state) {
  (void)state;
  session session = open_session(NULL, NULL);
  for (int wide = 0; wide < 2; wide++) {
    check_report(&session, DTYPE_F32, wide);
    check_report(&session, DTYPE_I64, wide);
    if (((cl_device *)session.device)->entry->traits.has_fp64)
      check_report(&session, DTYPE_F64, wide);
  }
  close_session(&session);
}

/* A kernel for GPUs declares its local size, so each size has its own program. A driver refuses a
 * launch with another group size. */
static void test_local_sizes(void **state) {
  static const size_t sizes[] = {64, 16, 64};
  static const uint64_t group[3] = {16, 4, 1};
  (void)state;
  scene scene;
  open_scene(&scene);
  for (int i = 0; i < 3; i++) {
    recorded recorded;
    const size_t global = 10;
    cl_recorder recorder = new_recorder(&scene.s, &recorded);
    launch launch;
    launch_begin(&launch, &recorder, &scene.n);
    launch_dtype(&launch, "OUT_TYPE", DTYPE_F32);
    launch_args(&launch,
                &(full_args){.out = buffer_arg(&scene.out), .n = 10, .value = i, .int_value = i});
    good(launch_run(&launch, 1, &global, &sizes[i]));
    good(run_recorded(&recorded, &scene.out, 0));
    check_filled(&scene.s, &scene.out, (float)i);
    free_recorded(&recorded);
  }
  const cl_device *device = (const cl_device *)scene.s.device;
  if (!device->entry->traits.is_cpu) assert_int_equal(device->n_programs, 2);
  text head = {0};
  args_write_head(&head, &kernel_signatures[KERNEL_FULL], group);
  assert_non_null(
      strstr(head.data, "__kernel __attribute__((reqd_work_group_size(16, 4, 1))) void full("));
  text_free(&head);
  close_scene(&scene);
}

/* The arguments of every kernel, with padding and 64-bit indices, are within the size that all
 * devices accept. */
static void test_bytes_of_arguments(void **state) {
  (void)state;
  size_t most = 0;
  for (int i = 0; i < N_KERNELS; i++) {
    const size_t bytes = args_max_bytes(&kernel_signatures[i]);
    assert_true(bytes <= MAX_LAUNCH_BYTES);
    if (bytes > most) most = bytes;
  }
  assert_true(most > MAX_LAUNCH_BYTES / 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_launch),
      cmocka_unit_test(test_wrong_launches),
      cmocka_unit_test(test_wrong_numbers),
      cmocka_unit_test(test_arguments_by_name),
      cmocka_unit_test(test_wide),
      cmocka_unit_test(test_kernel_of_each_dtype),
      cmocka_unit_test(test_numbers_reach_the_kernel),
      cmocka_unit_test(test_local_sizes),
      cmocka_unit_test(test_bytes_of_arguments),
  };
  return find_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 0;
}
