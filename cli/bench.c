/* clave bench: measures load time, the first run and later runs of a program, and the time per op.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/breakdown.h"
#include "cli/files.h"
#include "cli/measure.h"
#include "cli/model.h"
#include "cli/progress.h"
#include "json/writer.h"

typedef struct bench_arguments {
  model_arguments model;
  const char *inputs;
  text_list input, dims;
  int64_t runs, warmup, nodes;
  const char *svg, *profile;
  bool breakdown, json;
} bench_arguments;

static const flag bench_flags[] = {
    PROGRAM_FLAGS(bench_arguments),
    {"--inputs", FLAG_PATH, offsetof(bench_arguments, inputs), "I.safetensors",
     "input tensors (default: generated with the smallest legal sizes; floats from a seeded normal "
     "distribution, integers 0)",
     0, 0},
    {"--input", FLAG_INPUTS, offsetof(bench_arguments, input), "NAME=F.npy",
     "one input from a file, or literal values: NAME=5, NAME=1,2,3, NAME=[[1,2],[3,4]]; "
     "repeatable, overrides --inputs",
     0, 0},
    {"--dim", FLAG_LIST, offsetof(bench_arguments, dims), "NAME=N",
     "sets an open size of generated inputs (default: the smallest legal size), or the value of an "
     "integer scalar input; repeatable",
     0, 0},
    {"--runs", FLAG_INT, offsetof(bench_arguments, runs), "N", "number of timed runs (default 20)",
     1, 10000000},
    {"--warmup", FLAG_INT, offsetof(bench_arguments, warmup), "N",
     "number of untimed runs first, including the very first (default 3)", 0, 10000000},
    METHOD_FLAG(bench_arguments),
    DEVICE_FLAGS(bench_arguments),
    WARM_UP_FLAG(bench_arguments),
    {"--breakdown", FLAG_SWITCH, offsetof(bench_arguments, breakdown), NULL,
     "also profiles runs and prints the time per op and of the slowest nodes; with --json: of all "
     "nodes",
     0, 0},
    {"--nodes", FLAG_INT, offsetof(bench_arguments, nodes), "N",
     "number of nodes that --breakdown lists (default 10)", 0, 1000000},
    {"--svg", FLAG_WRITTEN, offsetof(bench_arguments, svg), "R.svg",
     "with --breakdown: writes a roofline plot with one point per node", 0, 0},
    {"--profile", FLAG_WRITTEN, offsetof(bench_arguments, profile), "T.json",
     "with --breakdown: writes a trace of the last run for Perfetto or chrome://tracing", 0, 0},
    {"--json", FLAG_SWITCH, offsetof(bench_arguments, json), NULL, "machine-readable output", 0, 0},
};

static const bench_arguments bench_defaults = {.runs = 20, .warmup = 3, .nodes = 10};

typedef struct measures {
  double open_ms, load_ms, first_ms, median_ms, min_ms, max_ms, peak_rss_mb;
  clave_memory_info memory;
  const char *answered_by;
  breakdown parts; /* with --breakdown */
} measures;

/* Times setting inputs, running and reading outputs. Resets the state before, untimed. */
static int bench_time_run(const model *model, const input_set *inputs, double *ms) {
  TRY_STATUS(clave_session_reset(model->session));
  double start = read_clock();
  TRY_EXIT(set_inputs(inputs, model));
  TRY_STATUS(clave_session_run(model->session, model->method.name));
  for (uint32_t i = 0; i < model->method.n_outputs; i++) {
    clave_tensor value;
    TRY_STATUS(clave_session_output(model->session, model->method.name, i, &value));
  }
  *ms = read_clock() - start;
  return EXIT_GOOD;
}

static int bench_time_runs(const bench_arguments *arguments, const model *model,
                           const input_set *inputs, double *times, measures *out) {
  double ignored;
  size_t n = (size_t)arguments->runs;
  show_progress("first run");
  TRY_EXIT(bench_time_run(model, inputs, &out->first_ms));
  show_progress("running");
  for (int64_t i = 1; i < arguments->warmup; i++) TRY_EXIT(bench_time_run(model, inputs, &ignored));
  for (size_t i = 0; i < n; i++) TRY_EXIT(bench_time_run(model, inputs, &times[i]));
  clear_progress();
  out->median_ms = sort_to_median(times, n);
  out->min_ms = times[0];
  out->max_ms = times[n - 1];
  return EXIT_GOOD;
}

static int measure_model(const bench_arguments *arguments, model *model, input_set *inputs,
                         measures *out) {
  TRY_EXIT(read_warm_up(&arguments->model, &model->warm_up));
  double start = read_clock();
  TRY_EXIT(open_device(&arguments->model, model));
  double opened = read_clock();
  TRY_EXIT(open_program(&arguments->model, model));
  TRY_EXIT(open_session(model, SESSION_PLAIN));
  out->load_ms = read_clock() - opened;
  out->open_ms = opened - start;
  TRY_EXIT(prepare_inputs(model, arguments->inputs, &arguments->input, &arguments->dims, inputs));
  double *times = calloc((size_t)arguments->runs, sizeof *times);
  if (!times) return fail_memory();
  int result = bench_time_runs(arguments, model, inputs, times, out);
  free(times);
  out->peak_rss_mb = measure_peak();
  out->memory.size = sizeof out->memory;
  TRY_STATUS(clave_session_memory(model->session, &out->memory));
  out->answered_by = clave_session_answered_by(model->session);
  if (result || !arguments->breakdown) return result;
  return measure_breakdown(model, inputs, arguments->runs, arguments->warmup, arguments->profile,
                           &out->parts);
}

/* ---------------------------------------------------------------- output */

static void write_input_shapes(const input_set *inputs, json_writer *writer) {
  emit_array(writer, "inputs");
  for (uint32_t i = 0; i < inputs->count; i++) {
    const clave_tensor *tensor = &inputs->items[i].value;
    emit_object(writer, NULL);
    emit_string(writer, "name", inputs->items[i].info.name);
    emit_string(writer, "dtype", clave_dtype_name(tensor->dtype));
    emit_list(writer, "shape");
    for (int k = 0; k < tensor->rank; k++) emit_integer(writer, NULL, tensor->dims[k]);
    emit_end_array(writer);
    emit_end_object(writer);
  }
  emit_end_array(writer);
}

static int bench_write_json(const bench_arguments *arguments, const model *model,
                            const input_set *inputs, const measures *measures, page *out) {
  json_writer writer = {.out = out};
  page device = {0};
  page_device(&device, model);
  emit_object(&writer, NULL);
  emit_string(&writer, "program", arguments->model.program);
  emit_string(&writer, "method", model->method.name);
  emit_string(&writer, "device", device.data);
  emit_string(&writer, "driver", model->device_info.driver);
  emit_string(&writer, "version", model->device_info.version);
  emit_string(&writer, "answered_by", measures->answered_by);
  emit_integer(&writer, "tuned", model->device_info.n_tuned);
  emit_integer(&writer, "runs", arguments->runs);
  emit_integer(&writer, "warmup", arguments->warmup);
  emit_number(&writer, "open_ms", measures->open_ms);
  emit_number(&writer, "load_ms", measures->load_ms);
  emit_number(&writer, "first_ms", measures->first_ms);
  emit_number(&writer, "median_ms", measures->median_ms);
  emit_number(&writer, "min_ms", measures->min_ms);
  emit_number(&writer, "max_ms", measures->max_ms);
  emit_number(&writer, "peak_rss_mb", measures->peak_rss_mb);
  emit_object(&writer, "plan");
  emit_size(&writer, "constant_bytes", measures->memory.constant_bytes);
  emit_size(&writer, "constant_bytes_in_place", measures->memory.constant_bytes_in_place);
  emit_size(&writer, "state_bytes", measures->memory.state_bytes);
  emit_size(&writer, "arena_bytes", measures->memory.arena_bytes);
  emit_end_object(&writer);
  write_input_shapes(inputs, &writer);
  out->failed |= device.failed;
  text_free(&device);
  if (arguments->breakdown) TRY_EXIT(write_breakdown_json(&measures->parts, &writer));
  emit_end_object(&writer);
  return EXIT_GOOD;
}

static int bench_write_text(const bench_arguments *arguments, const model *model,
                            const input_set *inputs, const measures *measures, page *out) {
  text_puts(out, "device       ");
  page_device(out, model);
  if (*model->device_info.version) {
    text_puts(out, "\ndriver       ");
    page_visible(out, model->device_info.driver);
    text_puts(out, ", ");
    page_visible(out, model->device_info.version);
  }
  if (model->device_info.n_tuned)
    text_printf(out, "\ntuned        %u rows", model->device_info.n_tuned);
  for (uint32_t i = 0; i < inputs->count; i++) {
    text_puts(out, i ? ", " : "\ninputs       ");
    page_visible(out, inputs->items[i].info.name);
    text_puts(out, " ");
    page_shape(out, &inputs->items[i].value);
  }
  text_printf(out, "\nopen_ms      %.3f\nload_ms      %.3f\nfirst_ms     %.3f\n", measures->open_ms,
              measures->load_ms, measures->first_ms);
  text_printf(out, "median_ms    %.3f\nmin_ms       %.3f\nmax_ms       %.3f\npeak_rss_mb  %.1f\n",
              measures->median_ms, measures->min_ms, measures->max_ms, measures->peak_rss_mb);
  text_printf(out, "answered_by  %s\n", measures->answered_by);
  text_puts(out, "plan         constants ");
  page_size(out, measures->memory.constant_bytes);
  text_puts(out, " (");
  page_size(out, measures->memory.constant_bytes_in_place);
  text_puts(out, " in place), state ");
  page_size(out, measures->memory.state_bytes);
  text_puts(out, ", arena ");
  page_size(out, measures->memory.arena_bytes);
  text_puts(out, "\n");
  return arguments->breakdown ? write_breakdown(&measures->parts, arguments->nodes, out)
                              : EXIT_GOOD;
}

static int bench_draw(const bench_arguments *arguments, const model *model,
                      const measures *measures) {
  page svg = {0}, title = {0};
  page_visible(&title, arguments->model.program);
  text_puts(&title, ", ");
  page_visible(&title, model->method.name);
  text_puts(&title, ", on ");
  page_device(&title, model);
  text_printf(&title, ": %.3f ms", measures->parts.total * 1e-6);
  int result = title.failed ? fail_memory() : write_roofline(&measures->parts, title.data, &svg);
  if (!result) result = write_file(arguments->svg, &svg);
  text_free(&title);
  text_free(&svg);
  return result;
}

static int bench_program(const void *given, page *out) {
  const bench_arguments *arguments = given;
  model model = {0};
  input_set inputs = {0};
  measures measures = {0};
  if (!arguments->breakdown && (arguments->svg || arguments->profile))
    return fail_usage("%s needs --breakdown", arguments->svg ? "--svg" : "--profile");
  int result = measure_model(arguments, &model, &inputs, &measures);
  if (!result)
    result = (arguments->json ? bench_write_json : bench_write_text)(arguments, &model, &inputs,
                                                                     &measures, out);
  if (!result && arguments->svg) result = bench_draw(arguments, &model, &measures);
  if (!result) result = print_page(out);
  free_breakdown(&measures.parts);
  free_inputs(&inputs);
  close_model(&model);
  return result;
}

const command bench_command = {
    .name = "bench",
    .usage = "bench PROG [--inputs I.safetensors] [--runs N] [--warmup N] [--breakdown] ...",
    .summary = "Measures load time, the first run, later runs, and the time per op.",
    .more =
        "load_ms: loading the program and creating the session. first_ms: the first run,\n"
        "including kernel builds. A run sets the inputs, computes, and reads the outputs; state\n"
        "is reset between runs. peak_rss_mb: peak memory of the whole process. answered_by: the\n"
        "kind of device that computed the last run.\n"
        "--breakdown: % of limit is the time at the device's peak memory bandwidth or peak\n"
        "multiply rate, whichever is longer, divided by the measured time; it exceeds 100 if\n"
        "caches hold the data.\n",
    .flags = bench_flags,
    .n_flags = LENGTH(bench_flags),
    .arguments_size = sizeof(bench_arguments),
    .defaults = &bench_defaults,
    .run = bench_program,
};
