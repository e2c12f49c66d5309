/* Replays op cases, made by test/cases/build.py from what torch computes, on any device. Over the
 * public header alone, without Python, so that it runs under sanitizers, oclgrind or on another
 * machine.
 *
 *   replay INDEX.tsv [--device D] [--fallback] [--only TEXT] [--part K/N [--turn TEXT]]
 *          [--small BYTES] [--poison] [--sabotage] [--warm-up] [--optimize] [--unchecked]
 *          [--digest] [-v]
 *
 * An op that the device cannot run fails its case, unless --fallback lets the CPU backend have it,
 * or no other backend has it.
 * --part K/N takes the cases whose name and --turn hash to K modulo N: the parts 0 to N - 1 are all
 * cases, and another turn (a commit) divides them in another way. --small takes those whose data
 * file has at most so many bytes. --sabotage runs nothing: it checks that no case takes zeros, the
 * negated answer or 2 % more for right. --warm-up lets the CPU backend answer while the device's
 * kernels are built, and goes on with the runs until the session has moved to the device.
 * --digest prints a hash of all results after the counts: runs that compute the same bits print the
 * same one. --optimize runs what clave_program_optimize makes of each program; a pass that was
 * refused fails the case. --unchecked compares nothing, for devices that compute nothing
 * (imitated_opencl): only an error that does not depend on values fails the case.
 *
 * A row of the index: name, program, data file, rtol, atol, steps (compare.h), error. The data file
 * holds "in.A.0", "in.A.1", ... (one set of inputs), "in.B.0", ... (another), and the outputs of
 * three runs in one session, A, B, A: "out.0.0", "out.1.0", "out.2.0" (runs 0 and 2 share outputs
 * where the file has no "out.2.*"): stale state would show. Where `error` is not empty the runs on
 * A must fail with that text in the message, the run on B must not. */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "clave.h"
#include "clave_builder.h"
#include "clave_files.h"
#include "compare.h"

enum {
  MAX_LINE = 4096,
  MAX_FILE = 2 * MAX_LINE + 2,
  N_FIELDS = 7,
  N_RUNS = 3,
  MAX_NAME = 64,
  MAX_TURNS = 20000
};
typedef enum field { NAME, PROGRAM, DATA, RTOL, ATOL, STEPS, ERROR } field;

typedef struct replay_options {
  const char *index, *device, *only, *turn;
  unsigned part, parts;
  long small;
  bool fallback, poison, verbose, sabotage, warm_up, optimize, digest, unchecked;
} replay_options;

typedef struct replay_case {
  const char *name, *error;
  tolerance tolerance;
  int run, output; /* where we are, for messages */
  bool unchecked;  /* see --unchecked */
  bool refused;    /* a pass was */
} replay_case;

static void print_failure(const replay_case *replay_case, const char *what) {
  printf("FAIL %s, run %d: %s\n", replay_case->name, replay_case->run, what);
}

/* Prints and frees an unexpected error. Returns true if there was one. */
static bool failed(const replay_case *replay_case, clave_status status) {
  if (!status) return false;
  print_failure(replay_case, clave_status_message(status));
  clave_status_free(status);
  return true;
}

/* ---- comparing */

static double half_to_double(uint16_t h) {
  int exponent = h >> 10 & 31, mantissa = h & 1023;
  double sign = h >> 15 ? -1 : 1;
  if (exponent == 31) return mantissa ? NAN : sign * INFINITY;
  return sign * (exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24));
}

static double bfloat_to_double(uint16_t h) {
  uint32_t bits = (uint32_t)h << 16;
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

static double e4m3_to_double(uint8_t b) {
  int exponent = b >> 3 & 15, mantissa = b & 7;
  if ((b & 127) == 127) return NAN;
  return (b >> 7 ? -1 : 1) * (exponent ? ldexp(8 + mantissa, exponent - 10) : ldexp(mantissa, -9));
}

static double float_at(const clave_tensor *tensor, size_t i) {
  switch (tensor->dtype) {
    case CLAVE_F8_E4M3:
      return e4m3_to_double(((const uint8_t *)tensor->data)[i]);
    case CLAVE_F8_E5M2:
      return half_to_double((uint16_t)(((const uint8_t *)tensor->data)[i] << 8));
    case CLAVE_F16:
      return half_to_double(((const uint16_t *)tensor->data)[i]);
    case CLAVE_BF16:
      return bfloat_to_double(((const uint16_t *)tensor->data)[i]);
    case CLAVE_F64:
      return ((const double *)tensor->data)[i];
    default:
      return ((const float *)tensor->data)[i];
  }
}

/* True if elements are compared as floats. Bits of 8-bit floats must be equal, except of rounded
 * sums. */
static bool is_float(clave_dtype t, tolerance allowed) {
  if (t == CLAVE_F8_E4M3 || t == CLAVE_F8_E5M2) return !is_exact(allowed);
  return t == CLAVE_F32 || t == CLAVE_F16 || t == CLAVE_BF16 || t == CLAVE_F64;
}

static float_format format_of(clave_dtype t) {
  return t == CLAVE_F16       ? format_f16
         : t == CLAVE_BF16    ? format_bf16
         : t == CLAVE_F64     ? format_f64
         : t == CLAVE_F8_E4M3 ? format_e4m3
         : t == CLAVE_F8_E5M2 ? format_e5m2
                              : format_f32;
}

static size_t count_of(const clave_tensor *tensor) {
  size_t n = 1;
  for (int i = 0; i < tensor->rank; i++) n *= (size_t)tensor->dims[i];
  return n;
}

/* Owned by the caller. */
static double *floats_of(const clave_tensor *tensor) {
  size_t n = count_of(tensor);
  double *values = malloc((n + 1) * sizeof *values);
  for (size_t i = 0; values && i < n; i++) values[i] = float_at(tensor, i);
  return values;
}

static void print_dims(const clave_tensor *tensor, char *text, size_t size) {
  int n = snprintf(text, size, "%s(", clave_dtype_name(tensor->dtype));
  for (int i = 0; i < tensor->rank; i++)
    n += snprintf(text + n, size - (size_t)n, "%s%" PRId64, i ? ", " : "", tensor->dims[i]);
  snprintf(text + n, size - (size_t)n, ")");
}

static bool same_type(const clave_tensor *got, const clave_tensor *want,
                      const replay_case *replay_case) {
  bool same = got->dtype == want->dtype && got->rank == want->rank;
  for (int i = 0; same && i < got->rank; i++) same = got->dims[i] == want->dims[i];
  if (same) return true;
  char g[256], w[256], line[600];
  print_dims(got, g, sizeof g);
  print_dims(want, w, sizeof w);
  snprintf(line, sizeof line, "output %d is %s, not %s", replay_case->output, g, w);
  print_failure(replay_case, line);
  return false;
}

static bool same_floats(const clave_tensor *got, const clave_tensor *want,
                        const replay_case *replay_case) {
  double *values = floats_of(got), *weights = floats_of(want);
  size_t n = count_of(want);
  float_format format = format_of(want->dtype);
  comparison result = {.wrong = n};
  if (values && weights)
    result = compare_floats(values, weights, n, format, replay_case->tolerance);
  const char *fault = comparison_fault(&result, format, replay_case->tolerance);
  if (fault) {
    char line[300];
    int m = snprintf(line, sizeof line, "output %d (%s): %s", replay_case->output,
                     clave_dtype_name(got->dtype), fault);
    if (result.wrong)
      m +=
          snprintf(line + m, sizeof line - (size_t)m, ": element %zu is %.9g, not %.9g; %zu of %zu",
                   result.first, values ? values[result.first] : 0,
                   weights ? weights[result.first] : 0, result.wrong, n);
    snprintf(line + m, sizeof line - (size_t)m,
             "; mean error in parts of the allowance %.2g, towards zero %.2g, size %.2g",
             result.sum / result.n, result.towards_zero / result.n, result.size / result.n);
    print_failure(replay_case, line);
  }
  free(values);
  free(weights);
  return !fault;
}

/* True if elements that are not floats are equal. Else prints the first that differs, and how many
 * do. */
static bool same_integers(const clave_tensor *got, const clave_tensor *want,
                          const replay_case *replay_case) {
  size_t bad = 0, first = 0, n = count_of(want), width = clave_dtype_size(want->dtype);
  const char *values = got->data, *word = want->data;
  for (size_t i = 0; i < n; i++)
    if (memcmp(values + i * width, word + i * width, width) && bad++ == 0) first = i;
  if (!bad) return true;
  int64_t a = 0, b = 0;
  char line[300];
  memcpy(&a, values + first * width, width);
  memcpy(&b, word + first * width, width);
  snprintf(line, sizeof line,
           "output %d (%s): element %zu is %#" PRIx64 ", not %#" PRIx64 "; %zu of %zu differ",
           replay_case->output, clave_dtype_name(got->dtype), first, a, b, bad, n);
  print_failure(replay_case, line);
  return false;
}

static bool same_tensor(const clave_tensor *got, const clave_tensor *want,
                        const replay_case *replay_case) {
  if (!same_type(got, want, replay_case)) return false;
  return is_float(want->dtype, replay_case->tolerance) ? same_floats(got, want, replay_case)
                                                       : same_integers(got, want, replay_case);
}

/* True if the tolerance of each output refuses zeros, the negated result and 2 % more. */
static bool rejects_sabotage(const clave_tensors *data, replay_case *replay_case) {
  bool good = true;
  clave_tensor want;
  char name[MAX_NAME], line[100];
  for (replay_case->run = 0; replay_case->run < N_RUNS; replay_case->run++) {
    for (replay_case->output = 0;
         snprintf(name, sizeof name, "out.%d.%d", replay_case->run, replay_case->output),
        clave_tensors_find(data, name, &want);
         replay_case->output++) {
      if (!is_float(want.dtype, replay_case->tolerance)) continue;
      double *weights = floats_of(&want);
      sabotage kind = weights ? accepted_sabotage(weights, count_of(&want), format_of(want.dtype),
                                                  replay_case->tolerance)
                              : SABOTAGE_ZEROS;
      free(weights);
      if (kind == N_SABOTAGES) continue;
      snprintf(line, sizeof line, "output %d (%s) would take %s for right", replay_case->output,
               clave_dtype_name(want.dtype), sabotage_names[kind]);
      print_failure(replay_case, line);
      good = false;
    }
  }
  return good;
}

/* ---- running */

static bool set_inputs(clave_session *session, const clave_tensors *data, char set,
                       const replay_case *replay_case) {
  clave_tensor tensor;
  char name[MAX_NAME];
  for (uint32_t i = 0;
       snprintf(name, sizeof name, "in.%c.%u", set, i), clave_tensors_find(data, name, &tensor);
       i++)
    if (failed(replay_case, clave_session_set_input(session, "forward", i, &tensor))) return false;
  return true;
}

static uint64_t digest = 14695981039346656037u; /* FNV-1a, of all results so far */

static void add_to_digest(const clave_tensor *tensor) {
  const unsigned char *bytes = tensor->data;
  size_t n = count_of(tensor) * clave_dtype_size(tensor->dtype);
  for (size_t i = 0; i < n; i++) digest = (digest ^ bytes[i]) * 1099511628211u;
}

static bool compare_outputs(clave_session *session, const clave_tensors *data,
                            replay_case *replay_case) {
  clave_tensor got, want;
  char name[MAX_NAME];
  snprintf(name, sizeof name, "out.2.0");
  int run = replay_case->run == 2 && !clave_tensors_find(data, name, &want) ? 0 : replay_case->run;
  for (replay_case->output = 0;; replay_case->output++) {
    snprintf(name, sizeof name, "out.%d.%d", run, replay_case->output);
    if (!clave_tensors_find(data, name, &want)) break;
    if (failed(replay_case,
               clave_session_output(session, "forward", (uint32_t)replay_case->output, &got)))
      return false;
    if (!same_tensor(&got, &want, replay_case)) return false;
    add_to_digest(&got);
  }
  if (replay_case->output) return true;
  print_failure(replay_case, "the data file has no outputs");
  return false;
}

/* Makes a run that must fail with a message that contains `error`. */
static bool run_bad(clave_session *session, const replay_case *replay_case) {
  clave_status status = clave_session_run(session, "forward");
  clave_tensor ignored;
  if (!status) status = clave_session_output(session, "forward", 0, &ignored);
  bool good = status && strstr(clave_status_message(status), replay_case->error);
  if (!good) {
    char line[700];
    snprintf(line, sizeof line, "the error is \"%.300s\", not \"...%.300s...\"",
             clave_status_message(status), replay_case->error);
    print_failure(replay_case, line);
  }
  clave_status_free(status);
  return good;
}

/* Makes a run without comparing results. An index that no kernel computed may be out of range. */
static bool run_unchecked(clave_session *session, const replay_case *replay_case) {
  clave_tensor ignored;
  clave_status status = clave_session_run(session, "forward");
  if (!status) status = clave_session_output(session, "forward", 0, &ignored);
  if (!status || clave_status_code(status) != CLAVE_INVALID) return !failed(replay_case, status);
  clave_status_free(status);
  return true;
}

static bool replay_runs(clave_session *session, const clave_tensors *data,
                        replay_case *replay_case) {
  for (replay_case->run = 0; replay_case->run < N_RUNS; replay_case->run++) {
    if (!set_inputs(session, data, replay_case->run == 1 ? 'B' : 'A', replay_case)) return false;
    if (replay_case->unchecked) {
      if (!run_unchecked(session, replay_case)) return false;
    } else if (*replay_case->error && replay_case->run != 1) {
      if (!run_bad(session, replay_case)) return false;
    } else if (failed(replay_case, clave_session_run(session, "forward")) ||
               !compare_outputs(session, data, replay_case)) {
      return false;
    }
  }
  return true;
}

/* Repeats the three runs until the device runs the last of them. */
static bool replay_warm_up(clave_session *session, const clave_tensors *data,
                           replay_case *replay_case) {
  const struct timespec moment = {.tv_nsec = 1000000};
  for (int i = 0; i < MAX_TURNS; i++) {
    if (!replay_runs(session, data, replay_case)) return false;
    const char *by = clave_session_answered_by(session);
    if (by && strcmp(by, "cpu") != 0) return true;
    (void)nanosleep(&moment, NULL);
    if (failed(replay_case, clave_session_reset(session))) return false;
  }
  print_failure(replay_case, "the session did not move to the device");
  return false;
}

static bool replay_sabotage(replay_case *replay_case, char *const *row, const char *folder) {
  char path[MAX_FILE];
  clave_tensors *data = NULL;
  snprintf(path, sizeof path, "%s/%s", folder, row[DATA]);
  bool good =
      !failed(replay_case, clave_tensors_load(path, &data)) && rejects_sabotage(data, replay_case);
  clave_tensors_destroy(data);
  return good;
}

static void note_refused(void *ctx, const clave_pass_info *info) {
  replay_case *replay_case = ctx;
  if (!info->refused) return;
  printf("FAIL %s: pass '%s': %s\n", replay_case->name, info->name, info->refused);
  replay_case->refused = true;
}

/* Replaces the program by the result of the passes. */
static bool optimize(replay_case *replay_case, clave_program **program) {
  clave_program *made;
  clave_optimize_options options = {
      .size = sizeof options, .report = note_refused, .report_ctx = replay_case};
  if (failed(replay_case, clave_program_optimize(*program, &options, &made)) ||
      replay_case->refused)
    return false;
  clave_program_destroy(*program);
  *program = made;
  return true;
}

/* Creates a session on the device alone, or with the CPU backend if no other backend has an op. */
static bool create_session(const replay_options *replay_options, clave_program *program,
                           clave_device *device, const clave_session_options *options,
                           const replay_case *replay_case, clave_session **out) {
  clave_status status = clave_session_create(program, device, options, out);
  if (!status || !strstr(clave_status_message(status),
                         "the op has no OpenCL kernel and runs only on the CPU backend"))
    return !failed(replay_case, status);
  clave_status_free(status);
  clave_device_options both = {.size = sizeof both};
  clave_device *with_cpu;
  if (failed(replay_case, clave_device_open(replay_options->device, &both, &with_cpu)))
    return false;
  bool good = !failed(replay_case, clave_session_create(program, with_cpu, options, out));
  clave_device_destroy(with_cpu);
  return good;
}

static bool replay_case_on(clave_device *device, const replay_options *replay_options,
                           char *const *row, const char *folder) {
  replay_case replay_case = {.name = row[NAME],
                             .error = row[ERROR],
                             .unchecked = replay_options->unchecked,
                             .tolerance = {atof(row[RTOL]), atof(row[ATOL]), atoi(row[STEPS])}};
  clave_program *program = NULL;
  clave_tensors *data = NULL;
  clave_session *session = NULL;
  clave_session_options options = {
      .size = sizeof options,
      .poison = replay_options->poison,
      .allow_custom_kernels = true,
      .warm_up = replay_options->warm_up ? CLAVE_WARM_UP_BACKGROUND : CLAVE_WARM_UP_WAIT};
  char path[MAX_FILE];
  snprintf(path, sizeof path, "%s/%s", folder, row[PROGRAM]);
  if (replay_options->sabotage) return replay_sabotage(&replay_case, row, folder);
  bool good = !failed(&replay_case, clave_program_load(path, NULL, &program)) &&
              (!replay_options->optimize || optimize(&replay_case, &program));
  snprintf(path, sizeof path, "%s/%s", folder, row[DATA]);
  good = good && !failed(&replay_case, clave_tensors_load(path, &data)) &&
         create_session(replay_options, program, device, &options, &replay_case, &session) &&
         (replay_options->warm_up ? replay_warm_up : replay_runs)(session, data, &replay_case);
  clave_session_destroy(session);
  clave_tensors_destroy(data);
  clave_program_destroy(program);
  return good;
}

/* ---- the index */

/* Splits a line at its tabs. Returns false unless it has all fields. */
static bool cut_row(char *line, char *row[N_FIELDS]) {
  line[strcspn(line, "\n")] = 0;
  for (int i = 0; i < N_FIELDS; i++) {
    if (!line) return false;
    row[i] = line;
    line = strchr(line, '\t');
    if (line) *line++ = 0;
  }
  return true;
}

/* FNV-1a, 32 bits. */
static uint32_t hash_text(uint32_t h, const char *text) {
  for (; *text; text++) h = (h ^ (unsigned char)*text) * 16777619u;
  return h;
}

/* True if the case is in the part. The hash is mixed, as FNV's low bits are weak. */
static bool is_in_part(const replay_options *options, const char *name) {
  uint32_t h = hash_text(hash_text(2166136261u, options->turn), name);
  h = (h ^ h >> 16) * 0x85ebca6bu;
  h = (h ^ h >> 13) * 0xc2b2ae35u;
  return (h ^ h >> 16) % options->parts == options->part;
}

static bool is_chosen(const replay_options *options, char *const *row, const char *folder) {
  if (options->only && !strstr(row[NAME], options->only)) return false;
  if (!is_in_part(options, row[NAME])) return false;
  char path[MAX_FILE];
  struct stat about;
  snprintf(path, sizeof path, "%s/%s", folder, row[DATA]);
  return options->small == LONG_MAX || stat(path, &about) || about.st_size <= options->small;
}

static int replay_index(FILE *file, clave_device *device, const replay_options *options) {
  char line[MAX_LINE], folder[MAX_LINE], *row[N_FIELDS];
  snprintf(folder, sizeof folder, "%s", options->index);
  char *slash = strrchr(folder, '/');
  snprintf(slash ? slash : folder, 2, "%s", slash ? "" : ".");
  int passed = 0, bad = 0;
  while (fgets(line, sizeof line, file)) {
    if (!cut_row(line, row)) {
      printf("%s: a row has fewer than %d fields\n", options->index, N_FIELDS);
      return 2;
    }
    if (!is_chosen(options, row, folder)) continue;
    bool good = replay_case_on(device, options, row, folder);
    if (good && options->verbose) printf("ok   %s\n", row[NAME]);
    fflush(stdout);
    *(good ? &passed : &bad) += 1;
  }
  printf("%d passed, %d failed\n", passed, bad);
  if (options->digest) printf("digest %016" PRIx64 "\n", digest);
  return bad || !passed;
}

static bool parse_part(const char *text, replay_options *options) {
  char end;
  return sscanf(text, "%u/%u%c", &options->part, &options->parts, &end) == 2 &&
         options->part < options->parts;
}

static bool parse_options(int argc, char **argv, replay_options *options) {
  for (int i = 1; i < argc; i++) {
    bool has_value = i + 1 < argc;
    if (!strcmp(argv[i], "--device") && has_value)
      options->device = argv[++i];
    else if (!strcmp(argv[i], "--only") && has_value)
      options->only = argv[++i];
    else if (!strcmp(argv[i], "--turn") && has_value)
      options->turn = argv[++i];
    else if (!strcmp(argv[i], "--part") && has_value && parse_part(argv[i + 1], options))
      i++;
    else if (!strcmp(argv[i], "--small") && has_value)
      options->small = atol(argv[++i]);
    else if (!strcmp(argv[i], "--fallback"))
      options->fallback = true;
    else if (!strcmp(argv[i], "--optimize"))
      options->optimize = true;
    else if (!strcmp(argv[i], "--poison"))
      options->poison = true;
    else if (!strcmp(argv[i], "--sabotage"))
      options->sabotage = true;
    else if (!strcmp(argv[i], "--unchecked"))
      options->unchecked = true;
    else if (!strcmp(argv[i], "--digest"))
      options->digest = true;
    else if (!strcmp(argv[i], "--warm-up"))
      options->warm_up = options->fallback = true;
    else if (!strcmp(argv[i], "-v"))
      options->verbose = true;
    else if (!options->index && argv[i][0] != '-')
      options->index = argv[i];
    else
      return false;
  }
  return options->index != NULL;
}

/* Prints a note of the device. That kernels_cl/support/builtins.h lacks a function is a failure. */
static void take_note(void *ctx, const char *line) {
  bool is_wrong = strstr(line, "builtins.h") != NULL;
  fprintf(is_wrong ? stdout : stderr, "%s%s\n", is_wrong ? "FAIL " : "replay: note: ", line);
  if (is_wrong) *(bool *)ctx = true;
}

int main(int argc, char **argv) {
  replay_options replay_options = {.device = "cpu", .turn = "", .parts = 1, .small = LONG_MAX};
  if (!parse_options(argc, argv, &replay_options)) {
    fprintf(stderr,
            "usage: replay INDEX.tsv [--device D] [--fallback] [--only TEXT] [--part K/N [--turn "
            "TEXT]] [--small BYTES] [--poison] [--sabotage] [--warm-up] [--digest] "
            "[--optimize] [--unchecked] [-v]\n");
    return 2;
  }
  FILE *file = fopen(replay_options.index, "r");
  if (!file) {
    fprintf(stderr, "replay: %s: no such index; test/cases/build.py makes it\n",
            replay_options.index);
    return 2;
  }
  clave_device *device;
  bool was_wrong = false;
  clave_device_options options = {.size = sizeof options,
                                  .no_fallback = !replay_options.fallback,
                                  .message = take_note,
                                  .message_ctx = &was_wrong};
  clave_status status = clave_device_open(replay_options.device, &options, &device);
  int code = 2;
  if (status)
    fprintf(stderr, "replay: %s\n", clave_status_message(status));
  else
    code = replay_index(file, device, &replay_options);
  clave_status_free(status);
  clave_device_destroy(device);
  fclose(file);
  return was_wrong && !code ? 1 : code;
}
