/* Tests the OpenCL backend below the ops: devices, buffers, the error record, times, the cache on
 * disk, kernels from a folder. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/opencl/program/cache.h"
#include "backend/opencl_fixture.h"
#include "base/memory.h"

static char folder[] = "/tmp/clave-test-XXXXXX";

static void test_devices(void **state) {
  (void)state;
  const backend_info *infos;
  int count;
  const char *reason;
  backend *backend;
  good(opencl_devices(&infos, &count, &reason));
  assert_true(count > device_index);
  assert_string_equal(infos[device_index].kind, "opencl");
  assert_true(infos[device_index].memory > 0 && infos[device_index].max_alloc > 0 &&
              infos[device_index].alignment >= 64);
  bad(opencl_backend_create(count, NULL, &backend), "is out of range: there are");
  assert_null(backend);
}

static void test_buffers(void **state) {
  (void)state;
  session session = open_session(NULL, NULL);
  const backend_vtable *vt = session.device->vt;
  buffer *buffer;
  char got[300], *host;
  assert_int_equal(posix_memalign((void **)&host, 4096, 8192), 0);
  for (int i = 0; i < 8192; i++) host[i] = (char)(i * 7);
  for (size_t offset = 0; offset < 3; offset++) { /* in place, and copied */
    good(vt->buffer_wrap(session.device, host + offset, 5000, false, &buffer));
    assert_int_equal(buffer->bytes, 5000);
    good(vt->read(session.stream, buffer, 4000, got, 300));
    assert_memory_equal(got, host + offset + 4000, 300);
    vt->buffer_destroy(session.device, buffer);
  }
  good(vt->buffer_create(session.device, 0, &buffer));
  good(vt->write(session.stream, buffer, 0, NULL, 0));
  vt->buffer_destroy(session.device, buffer);
  good(vt->buffer_create(session.device, 300, &buffer));
  good(vt->write(session.stream, buffer, 0, host, 300));
  good(vt->fill_zero(session.stream, buffer, 3, 5));
  good(vt->read(session.stream, buffer, 0, got, 300));
  for (int i = 0; i < 300; i++) assert_int_equal(got[i], i >= 3 && i < 8 ? 0 : host[i]);
  vt->buffer_destroy(session.device, buffer);
  vt->buffer_destroy(session.device, NULL);
  if (session.device->info.max_alloc < SIZE_MAX / 2) {
    clave_status st =
        vt->buffer_create(session.device, (size_t)session.device->info.max_alloc + 1, &buffer);
    assert_int_equal(status_code_of(st), STATUS_NO_MEMORY);
    bad(st, "exceeds the device's limit");
  }
  free(host);
  close_session(&session);
}

/* An integer division by zero is reported once, with the number of its node. */
/* Uses memory from the host if the device is a CPU, so that the sanitizers see the release. */
static void test_large_buffers(void **state) {
  (void)state;
  session session = open_session(NULL, NULL);
  const backend_vtable *vt = session.device->vt;
  const char sent[] = "the last bytes";
  for (size_t more = 0; more < 2; more++) {
    const size_t bytes = MEMORY_LARGE - 1 + more;
    char got[sizeof sent] = "";
    buffer *buffer;
    good(vt->buffer_create(session.device, bytes, &buffer));
    assert_true(buffer->bytes == bytes);
    good(vt->write(session.stream, buffer, bytes - sizeof sent, sent, sizeof sent));
    good(vt->read(session.stream, buffer, bytes - sizeof sent, got, sizeof got));
    assert_string_equal(got, sent);
    vt->buffer_destroy(session.device, buffer);
  }
  close_session(&session);
}

typedef struct recorded_fill {
  size_t offset, bytes;
} recorded_fill;
static recorded_fill fills[4];
static int n_fills;

static cl_int CL_API_CALL record_fill(cl_command_queue queue, cl_mem memory, const void *pattern,
                                      size_t pattern_size, size_t offset, size_t bytes, cl_uint n,
                                      const cl_event *list, cl_event *event) {
  (void)queue, (void)memory, (void)pattern, (void)pattern_size, (void)n, (void)list, (void)event;
  assert_true(n_fills < 4);
  fills[n_fills++] = (recorded_fill){offset, bytes};
  return n_fills == 3 ? CL_OUT_OF_RESOURCES : CL_SUCCESS;
}

/* A fill of more than 1 GB is divided into several calls, which cover it without a gap. */
static void test_large_fills(void **state) {
  (void)state;
  session session = open_session(NULL, NULL);
  cl_stream *stream = (cl_stream *)session.stream;
  const cl_functions *real = stream->cl;
  cl_functions calls = *real;
  cl_buffer memory = {.base = {.bytes = SIZE_MAX}};
  const size_t part = (size_t)1 << 30;
  calls.clEnqueueFillBuffer = record_fill;
  stream->cl = &calls;
  good(session.device->vt->fill_zero(session.stream, &memory.base, 12, part + 1));
  assert_int_equal(n_fills, 2);
  assert_true(fills[0].offset == 12 && fills[0].bytes == part);
  assert_true(fills[1].offset == 12 + part && fills[1].bytes == 1);
  bad(session.device->vt->fill_zero(session.stream, &memory.base, 0, 2 * part), "CL_OUT_OF");
  assert_int_equal(n_fills, 3); /* an error ends it */
  stream->cl = real;
  close_session(&session);
}

/* Tests when the host's memory is used in place, and the size of the mapping. */
static void test_wraps(void **state) {
  (void)state;
  backend_info gpu = {.shares_host_memory = true, .wrap_alignment = 4096, .wrap_multiple = 64},
               never = {.shares_host_memory = true};
  char *page = (char *)(uintptr_t)8192;
  assert_true(backend_wraps_in_place(&gpu, page, 65, false));
  assert_false(backend_wraps_in_place(&gpu, page, 65, true));
  assert_true(backend_wraps_in_place(&gpu, page, 128, true));
  assert_false(backend_wraps_in_place(&gpu, page + 64, 128, false));
  assert_false(backend_wraps_in_place(&never, page, 4096, false));
}

static void test_fault(void **state) {
  (void)state;
  session session = open_session(NULL, NULL);
  bound_tensor tensor[3] = {vector_of(&session, DTYPE_I32, 2, (int32_t[]){7, 8}),
                            vector_of(&session, DTYPE_I32, 2, (int32_t[]){2, 0}),
                            vector_of(&session, DTYPE_I32, 2, NULL)};
  ir_operand operands[2] = {{.index = 0}, {.index = 1}};
  ir_step step = {.kind = IR_STEP_KIND_FLOOR_DIVIDE, .dtype = DTYPE_I32, .operands = {operands, 2}};
  uint32_t tids[2] = {0, 1};
  ir_elementwise op = {.inputs = {tids, 2}, .steps = {&step, 1}, .out = 2};
  ir_instruction instruction = {.op_type = IR_OP_ELEMENTWISE, .op = &op, .name = "divide"};
  for (uint32_t i = 0; i < 3; i++) tensor[i].slot = i;
  recorded recorded;
  good(make_recorded(session.device, session.stream,
                     (node){.instruction = &instruction, .tensors = tensor}, &recorded));
  device_fault fault;
  good(run_recorded(&recorded, tensor, 41));
  good(run_recorded(&recorded, tensor, 42));
  finish(&session, &fault);
  assert_true(fault.present && fault.node == 41 && fault.fault.kind == KERNEL_FAULT_DIVISION);
  finish(&session, &fault);
  assert_false(fault.present);
  good(session.device->vt->write(session.stream, tensor[1].buf, 0, (int32_t[]){2, 3}, 8));
  good(run_recorded(&recorded, tensor, 43));
  finish(&session, &fault);
  assert_false(fault.present);
  free_recorded(&recorded);
  for (int i = 0; i < 3; i++) session.device->vt->buffer_destroy(session.device, tensor[i].buf);
  close_session(&session);
}

static void test_times(void **state) {
  (void)state;
  session session = open_session(NULL, NULL);
  ir_full op = {.value = {.literal = 2, .vid = IR_NONE, .present = true}, .out = 0};
  ir_instruction instruction = {.op_type = IR_OP_FULL, .op = &op, .name = "full"};
  bound_tensor out = vector_of(&session, DTYPE_F32, 100000, NULL);
  recorded recorded;
  good(make_recorded(session.device, session.stream,
                     (node){.instruction = &instruction, .tensors = &out}, &recorded));
  device_fault fault;
  int64_t start[2], end[2];
  for (int on = 1; on >= 0; on--) {
    good(session.device->vt->profile->enable(session.stream, on));
    for (uint32_t i = 0; i < 300; i++) good(run_recorded(&recorded, &out, i));
    finish(&session, &fault);
    for (uint32_t i = 0; i < 2; i++)
      good(session.device->vt->profile->times(session.stream, 10 * i, &start[i], &end[i]));
    if (on)
      assert_true(start[0] > 0 && end[0] >= start[0] && start[1] >= start[0] && end[1] >= end[0]);
    else
      assert_true(start[0] == 0 && end[0] == 0);
  }
  check_filled(&session, &out, 2);
  free_recorded(&recorded);
  session.device->vt->buffer_destroy(session.device, out.buf);
  close_session(&session);
}

/* Runs `full` in a new device with this cache and collects its notes in `notes`. */
static void run_cached(const char *dir) {
  session session = open_session(dir, NULL);
  bound_tensor out = vector_of(&session, DTYPE_F32, 100, NULL);
  device_fault fault;
  good(fill(&session, &out, 5));
  finish(&session, &fault);
  check_filled(&session, &out, 5);
  session.device->vt->buffer_destroy(session.device, out.buf);
  close_session(&session);
}

/* Kernels of one file with different options are cached separately. */
static void test_cache_by_options(void **state) {
  (void)state;
  char dir[256];
  cache_stats stats;
  snprintf(dir, sizeof dir, "%s/options", folder);
  for (int i = 0; i < 4; i++) {
    session session = open_session(dir, NULL);
    bound_tensor out = vector_of(&session, i % 2 ? DTYPE_I32 : DTYPE_F32, 1, NULL);
    int32_t got = 0;
    float number;
    good(fill(&session, &out, 5));
    good(session.device->vt->read(session.stream, out.buf, 0, &got, sizeof got));
    memcpy(&number, &got, sizeof number);
    assert_true(i % 2 ? got == 5 : number == 5);
    session.device->vt->buffer_destroy(session.device, out.buf);
    close_session(&session);
  }
  good(cache_info(dir, &stats));
  assert_int_equal(stats.files, 2);
}

/* A full cache evicts the least recently used entries. */
static void test_cache_trims_the_oldest(void **state) {
  (void)state;
  char dir[256], path[512];
  const uint8_t data[100] = {0};
  cache_entry binary = {
      .data = data, .size = sizeof data, .about = "p\nd\nv\nkernel\n\n", .n_about = 14};
  uint64_t removed, keys[3][2];
  bool damaged;
  cache_entry entry;
  snprintf(dir, sizeof dir, "%s/trim", folder);
  good(cache_open(dir));
  for (int k = 0; k < 3; k++) {
    binary.origin.source[0] = (uint64_t)k;
    cache_key(&binary.origin, keys[k]);
    good(cache_save(dir, &binary));
    snprintf(path, sizeof path, "%s/%016llx%016llx.clbin", dir, (unsigned long long)keys[k][0],
             (unsigned long long)keys[k][1]);
    time_t age = k == 1 ? 1000 : 2000;
    assert_int_equal(utimensat(AT_FDCWD, path, (struct timespec[]){{age, 0}, {age, 0}}, 0), 0);
  }
  good(cache_trim(dir, 600, &removed));
  assert_true(removed > 0);
  assert_false(cache_load(dir, keys[1], &entry, &damaged));
  for (int k = 0; k < 3; k += 2) {
    assert_true(cache_load(dir, keys[k], &entry, &damaged));
    file_map_close(&entry.map);
  }
}

static void damage_files(const char *dir, long at) {
  folder_entry *entries;
  size_t count;
  good(folder_list(dir, &entries, &count));
  for (size_t i = 0; i < count; i++) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, entries[i].name);
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    fseek(file, at, SEEK_SET);
    fputc('x', file);
    fclose(file);
  }
  folder_list_free(entries, count);
}

static void test_cache(void **state) {
  (void)state;
  char dir[256];
  cache_stats stats;
  uint64_t removed;
  snprintf(dir, sizeof dir, "%s/cache/deep", folder);
  run_cached(dir);
  good(cache_info(dir, &stats));
  assert_true(stats.files == 1 && stats.bytes > 100 && stats.limit_bytes == CACHE_LIMIT_BYTES);
  run_cached(dir);
  assert_string_equal(notes, "");
  for (long at = 0; at < 400; at += 60) {
    damage_files(dir, at);
    run_cached(dir);
    assert_non_null(strstr(notes, "damaged"));
  }
  run_cached(dir);
  assert_string_equal(notes, "");
  uint64_t bytes = stats.bytes;
  good(cache_trim(dir, bytes * 2, NULL)); /* counts the entries of other processes, too */
  good(cache_info(dir, &stats));
  assert_int_equal(stats.files, 1);
  good(cache_trim(dir, 0, &removed));
  assert_true(removed > 0);
  good(cache_info(dir, &stats));
  assert_int_equal(stats.files, 0);
  good(cache_info("/nowhere/at/all", &stats));
  assert_int_equal(stats.files, 0);
}

static void test_unusable_cache(void **state) {
  (void)state;
  char dir[256];
  run_cached("/proc/nowhere");
  assert_non_null(strstr(notes, "kernel binaries are not cached"));
  snprintf(dir, sizeof dir, "%s/shared", folder);
  assert_int_equal(mkdir(dir, 0700), 0);
  assert_int_equal(chmod(dir, 0777), 0);
  run_cached(dir);
  assert_non_null(strstr(notes, "can be written by others"));
}

static void write_kernel(const char *name, const char *content) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(content, file);
  fclose(file);
}

static void test_kernel_folder(void **state) {
  (void)state;
  session session = open_session(NULL, folder);
  bound_tensor out = vector_of(&session, DTYPE_F32, 10, NULL);
  bad(fill(&session, &out, 1), "arange.cl");
  write_kernel("arange.cl",
               "#include \"common.h\"\n__kernel void full(of any form) {\n  wrong;\n}\n");
  bad(fill(&session, &out, 1), "'wrong'"); /* under the embedded header */
  write_kernel("common.h", "own header;\n");
  bad(fill(&session, &out, 1), "'own'");
  write_kernel("common.h", "typedef int index_t;\ntypedef float real;\n#define STORAGE(T) float\n");
  bad(fill(&session, &out, 1), "wrong");
  write_kernel("arange.cl",
               "#include \"common.h\"\n__kernel void full() {\n"
               "  if (get_global_id(0) < n) out[out_offset + get_global_id(0)] = 2 * value;\n}\n");
  good(fill(&session, &out, 1));
  check_filled(&session, &out, 2);
  session.device->vt->buffer_destroy(session.device, out.buf);
  close_session(&session);
}

/* A kernel file that changed is built anew, though a binary of the old file is cached. */
static void test_cache_by_source(void **state) {
  (void)state;
  char dir[256], source[300];
  snprintf(dir, sizeof dir, "%s/source", folder);
  write_kernel("common.h", "typedef int index_t;\ntypedef float real;\n#define STORAGE(T) float\n");
  for (int factor = 2; factor < 5; factor++) {
    snprintf(source, sizeof source,
             "#include \"common.h\"\n__kernel void full() {\n"
             "  if (get_global_id(0) < n) out[out_offset + get_global_id(0)] = %d * value;\n}\n",
             factor);
    write_kernel("arange.cl", source);
    session session = open_session(dir, folder);
    bound_tensor out = vector_of(&session, DTYPE_F32, 10, NULL);
    good(fill(&session, &out, 1));
    check_filled(&session, &out, (float)factor);
    session.device->vt->buffer_destroy(session.device, out.buf);
    close_session(&session);
  }
}

/* Returns those build options of a kernel that its driver may refuse, or "". */
static const char *more_options(const char *platform, const char *extensions, uint32_t min_lanes,
                                const char *kernel) {
  const device_entry entry = {.info = {.platform = platform, .extensions = extensions},
                              .traits.min_lanes = min_lanes};
  const char *text = quirk_build_options(&entry, kernel).text;
  return text ? text : "";
}

/* Build options depend on the platform, on extensions and on the kernel. */
static void test_quirk_of_builds(void **state) {
  (void)state;
  const char *pocl = "Portable Computing Language (OpenCL 3.0 PoCL 3.1+debian  Linux, LLVM 15)";
  const char *intel = "Intel(R) OpenCL Graphics (OpenCL 3.0)",
             *sizes = "cl_khr_fp16 cl_intel_required_subgroup_size";
  assert_string_equal(more_options(pocl, "", 0, "full"), " -D OWN_BUILTINS=1 -D _OPENCL_H_");
  assert_non_null(quirk_empty(pocl)); /* another row's answer */
  assert_true(quirk_slow_binaries(pocl));
  assert_true(quirk_first_alone(pocl));
  assert_false(quirk_slow_binaries("NVIDIA CUDA (OpenCL 3.0)"));
  assert_string_equal(more_options("Oclgrind (OpenCL 1.2)", "", 0, "full"), "");
  assert_string_equal(more_options(intel, "cl_khr_fp16", 8, "conv_groups"), "");
  assert_string_equal(more_options(intel, sizes, 8, "conv_groups"),
                      " -cl-intel-256-GRF-per-thread");
  assert_string_equal(more_options(intel, sizes, 16, "conv_groups"),
                      " -D SUB_GROUP=16 -cl-intel-256-GRF-per-thread");
  assert_string_equal(more_options(intel, sizes, 16, "conv"), "");
}

/* Tests the lanes per compute unit, by which devices are ranked, and the names of vendors. */
static void test_quirks_of_makers(void **state) {
  (void)state;
  assert_int_equal(quirk_unit_lanes("NVIDIA CUDA (OpenCL 3.0)", "NVIDIA GeForce RTX 3060"), 128);
  assert_int_equal(quirk_unit_lanes("Intel(R) OpenCL Graphics (OpenCL 3.0)", "Iris"), 8);
  assert_int_equal(quirk_unit_lanes("rusticl (OpenCL 3.0)", "AMD Radeon RX 6600"), 64);
  assert_true(quirk_unit_lanes("another", "another") > 0);
  assert_string_equal(quirk_maker("QUALCOMM Snapdragon(TM) (OpenCL 3.0)"), "QUALCOMM");
  assert_null(quirk_maker("ARM Platform (OpenCL 3.0)"));
  assert_true(quirk_copies("ARM Platform (OpenCL 3.0)"));
  assert_false(quirk_copies("Intel(R) OpenCL Graphics (OpenCL 3.0)"));
}

/* The source of a program has one kernel, and all of the file's text outside of kernels. */
static void test_one_kernel_a_program(void **state) {
  (void)state;
  session session = open_session(NULL, NULL);
  for (int i = 0; i < N_KERNELS; i++) {
    const kernel_signature *signature = &kernel_signatures[i];
    text source = {0};
    char head[96];
    snprintf(head, sizeof head, "__kernel void %s(", signature->kernel);
    const kernel_request request = {.device = (cl_device *)session.device, .signature = signature};
    good(source_of_kernel(&request, &source));
    const char *at = strstr(source.data, "__kernel");
    assert_true(at && strncmp(at, head, strlen(head)) == 0);
    assert_null(strstr(at + 1, "__kernel"));
    assert_non_null(strstr(source.data, "typedef PASTE(real_, COMPUTE) real;"));
    text_free(&source);
  }
  close_session(&session);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_devices),
      cmocka_unit_test(test_buffers),
      cmocka_unit_test(test_large_buffers),
      cmocka_unit_test(test_large_fills),
      cmocka_unit_test(test_wraps),
      cmocka_unit_test(test_fault),
      cmocka_unit_test(test_times),
      cmocka_unit_test(test_cache),
      cmocka_unit_test(test_cache_by_options),
      cmocka_unit_test(test_cache_trims_the_oldest),
      cmocka_unit_test(test_unusable_cache),
      cmocka_unit_test(test_kernel_folder),
      cmocka_unit_test(test_cache_by_source),
      cmocka_unit_test(test_quirk_of_builds),
      cmocka_unit_test(test_quirks_of_makers),
      cmocka_unit_test(test_one_kernel_a_program),
  };
  if (!find_device()) return 0;
  if (!mkdtemp(folder)) return 1;
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  char command[64];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command) || failed;
}
