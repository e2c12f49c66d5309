/* Times rows that are bound by memory, or by multiplication, on one device. */
#include "cli/speeds.h"

#include "cli/command.h"
#include "cli/measure.h"

/* Uses the fastest of up to MAX_RUNS runs. Short runs are repeated more often, because other load
 * disturbs them most. */
enum { MIN_RUNS = 4, MAX_RUNS = 40, ENOUGH_MS = 150 };

const speed_row bandwidth_row = {CLAVE_F32,
                                 {"elementwise", "Elementwise",
                                  "inputs=f32[8,1048576] steps=neg:f32:0 out>f32[8,1048576]", true},
                                 2.0 * 8 * 1048576 * sizeof(float)};

/* Operations of the products below, whose constant operands are packed once, as in models. */
#define PRODUCT_WORK (2.0 * 768 * 1536 * 768)
const speed_row product_rows[] = {
    {CLAVE_F32,
     {"matmul", "Matmul", "a=f32[768,1536] b=f32[1536,768]! out>f32[768,768]", false},
     PRODUCT_WORK},
    {CLAVE_F64,
     {"matmul", "Matmul", "a=f64[768,1536] b=f64[1536,768]! out>f64[768,768]", false},
     PRODUCT_WORK},
    {CLAVE_F16,
     {"matmul", "Matmul", "a=f16[768,1536] b=f16[1536,768]! out>f16[768,768]", false},
     PRODUCT_WORK},
    {CLAVE_BF16,
     {"matmul", "Matmul", "a=bf16[768,1536] b=bf16[1536,768]! out>bf16[768,768]", false},
     PRODUCT_WORK},
    {CLAVE_I8,
     {"conv", "ConvInteger",
      "x=i8[1,1536,768] weight=i8[768,1536,1]! stride=(1) padding=(0) dilation=(1) "
      "out>i32[1,768,768]",
      true},
     PRODUCT_WORK},
    /* In fast precision, the operand's rows are rounded to 8 bits. */
    {CLAVE_I8,
     {"matmul", "Matmul", "a=f32[768,1536] b=Q8_0[768,1536] b_transposed=true out>f32[768,768]",
      false},
     PRODUCT_WORK},
};
const size_t n_product_rows = LENGTH(product_rows);

clave_status run_check(const check_program *program, clave_device *device, bool profile,
                       clave_session **out) {
  const clave_session_options options = {
      .size = sizeof options, .unchecked = true, .profile = profile};
  clave_status st = clave_session_create(program->program, device, &options, out);
  for (uint32_t i = 0; i < program->n_inputs && !st; i++)
    st = clave_session_set_input(*out, NULL, i, &program->inputs[i]);
  if (!st) st = clave_session_run(*out, NULL);
  return st;
}

static void add_time(void *ctx, const clave_timing *timing) {
  double *ms = ctx;
  if (timing->kind == CLAVE_TIMING_NODE) *ms += (double)(timing->end_ns - timing->start_ns) * 1e-6;
}

static clave_status speeds_time_run(clave_session *session, run_time *best) {
  run_time took = {0};
  const double begin = read_clock();
  clave_status st = clave_session_run(session, NULL);
  took.whole = read_clock() - begin;
  if (!st) st = clave_session_timings(session, add_time, &took.kernels);
  if (best->whole == 0 || took.whole < best->whole) best->whole = took.whole;
  if (best->kernels == 0 || took.kernels < best->kernels) best->kernels = took.kernels;
  return st;
}

int time_check(const check_row *row, clave_device *device, run_time *out, clave_status *status) {
  check_program program;
  clave_session *session = NULL;
  *out = (run_time){0};
  int code = check_program_make(row, &program, status);
  if (!code && !*status) *status = run_check(&program, device, true, &session);
  const double begin = read_clock();
  for (int i = 0; i < MAX_RUNS && !*status && !code; i++) {
    if (i >= MIN_RUNS && read_clock() - begin > ENOUGH_MS) break;
    *status = speeds_time_run(session, out);
  }
  clave_session_destroy(session);
  check_program_free(&program);
  return code;
}

/* Measures work per second of kernels alone; 0 if the row does not run. */
static int speeds_measure_rate(const speed_row *row, clave_device *device, double *out) {
  run_time took;
  clave_status st = NULL;
  const int code = time_check(&row->row, device, &took, &st);
  *out = st || took.kernels <= 0 ? 0 : row->work / took.kernels * 1e3;
  clave_status_free(st);
  return code;
}

int measure_peak_of(clave_device *device, const char *name, clave_dtype dtype, double *bandwidth,
                    clave_peak *out) {
  *out = (clave_peak){.size = sizeof *out, .device = name, .dtype = dtype};
  if (*bandwidth <= 0) TRY_EXIT(speeds_measure_rate(&bandwidth_row, device, bandwidth));
  for (size_t i = 0; i < n_product_rows; i++) {
    double rate;
    if (product_rows[i].dtype != dtype) continue;
    TRY_EXIT(speeds_measure_rate(&product_rows[i], device, &rate));
    if (rate > out->flops_a_second) out->flops_a_second = rate;
  }
  out->bytes_a_second = *bandwidth;
  return EXIT_GOOD;
}
