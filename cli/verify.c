/* clave verify: checks a program's structure and hashes, and compares its results node by node: on
 * a device, after the passes, in an executable, and with a reference file. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clave_files.h"
#include "cli/executed.h"
#include "cli/progress.h"
#include "cli/verify_report.h"

typedef struct verify_arguments {
  model_arguments model;
  const char *reference, *inputs, *executable, *html;
  text_list input;
  bool run, all, json;
} verify_arguments;

static const flag verify_flags[] = {
    PROGRAM_FLAGS(verify_arguments),
    {"--reference", FLAG_PATH, offsetof(verify_arguments, reference), "R.safetensors",
     "reference tensors input_0..., output_0... and node results (node.NAME), as python -m "
     "clave.reference writes them",
     0, 0},
    {"--run", FLAG_SWITCH, offsetof(verify_arguments, run), NULL,
     "compares results without a reference, on generated inputs (as in clave bench)", 0, 0},
    {"--inputs", FLAG_PATH, offsetof(verify_arguments, inputs), "I.safetensors",
     "compares results on these inputs", 0, 0},
    {"--input", FLAG_INPUTS, offsetof(verify_arguments, input), "NAME=F.npy",
     "one input from a file, or literal values: NAME=1,2,3; repeatable, overrides --inputs", 0, 0},
    {"--executable", FLAG_PATH, offsetof(verify_arguments, executable), "BIN",
     "also runs this executable, made by clave compile from the program, on the same inputs", 0, 0},
    {"--all", FLAG_SWITCH, offsetof(verify_arguments, all), NULL,
     "prints a table of all nodes, even if the check fails", 0, 0},
    {"--json", FLAG_SWITCH, offsetof(verify_arguments, json), NULL,
     "prints the table as machine-readable output", 0, 0},
    {"--html", FLAG_WRITTEN, offsetof(verify_arguments, html), "F.html",
     "writes an HTML page with the table and the graph, coloured by error", 0, 0},
    METHOD_FLAG(verify_arguments),
    DEVICE_FLAGS(verify_arguments),
};

/* Prefixes of the tensors in a reference file that are not inputs. */
static const char *const others[] = {"output_", "node.", NULL};

static bool wants_results(const verify_arguments *arguments) {
  return arguments->reference || arguments->run || arguments->inputs || arguments->input.count ||
         arguments->executable || arguments->all || arguments->json || arguments->html;
}

static int cli_verify_take_inputs(const verify_arguments *arguments, const model *model,
                                  input_set *inputs) {
  if (arguments->reference && arguments->inputs)
    return fail(
        "--reference and --inputs exclude each other, because the reference file has the inputs");
  TRY_EXIT(describe_inputs(model, inputs));
  if (!arguments->reference && !arguments->inputs && !arguments->input.count)
    return generate_inputs(inputs);
  if (arguments->reference) TRY_EXIT(read_input_file(inputs, arguments->reference, others));
  if (arguments->inputs) TRY_EXIT(read_input_file(inputs, arguments->inputs, NULL));
  TRY_EXIT(read_input_list(inputs, &arguments->input));
  return check_inputs(inputs);
}

/* ---------------------------------------------------------------- the comparisons */

static bool is_on_cpu(const model *model) { return strcmp(model->device_info.kind, "cpu") == 0; }

static void print_compared(const verification *verification, page *out) {
  const stage *device = &verification->stages[STAGE_DEVICE],
              *fusion = &verification->stages[STAGE_FUSION],
              *passes = &verification->stages[STAGE_PASSES],
              *file = &verification->stages[STAGE_REFERENCE];
  const uint32_t n_outputs = verification->model->method.n_outputs;
  if (device->name) {
    text_printf(out, "ops      %" PRIu32 " results equal on ", device->compared - n_outputs);
    page_device(out, verification->model);
    text_puts(out, " and the CPU backend\n");
  }
  if (fusion->name)
    text_printf(out, "fusion   %" PRIu32 " outputs equal with and without it\n", fusion->compared);
  if (passes->name && passes->n_applied) {
    text_printf(out, "passes   %" PRIu32 " results equal after %" PRIu32 " rewrites\n",
                passes->compared, passes->n_applied);
  } else if (passes->name) {
    text_puts(out, "passes   nothing to rewrite\n");
  }
  if (!file->name) return;
  uint32_t equal = 0;
  for (uint32_t i = 0; i < n_outputs; i++)
    equal += file->pointers[verification->base.count - n_outputs + i] != NULL;
  if (file->compared > equal)
    text_printf(out, "nodes    %" PRIu32 " results equal to the reference\n",
                file->compared - equal);
  text_printf(out, "outputs  %" PRIu32 " equal to the reference on ", equal);
  page_device(out, verification->model);
  text_puts(out, "\n");
}

/* Reports the first comparison that failed. Called after all comparisons. */
static int cli_verify_judge(const verification *verification) {
  for (int i = 0; i < N_STAGES; i++) {
    const stage *stage = &verification->stages[i];
    page what = {0};
    if (stage->name && stage->pair.errors) describe_stage(verification, stage, &what);
    int result = what.failed ? fail_memory() : what.size ? fail("%s", what.data) : EXIT_GOOD;
    text_free(&what);
    TRY_EXIT(result);
  }
  return EXIT_GOOD;
}

static int cli_verify_compare(const verify_arguments *arguments, verification *verification,
                              page *out) {
  TRY_EXIT(begin_verification(verification));
  TRY_EXIT(is_on_cpu(verification->model) ? compare_fusion(verification)
                                          : compare_device(verification));
  TRY_EXIT(compare_passes(verification));
  if (arguments->reference) TRY_EXIT(compare_reference(verification));
  if (arguments->html)
    TRY_EXIT(write_error_page(verification, arguments->model.program, arguments->html));
  if (arguments->json) out->size = 0;
  if (arguments->json) write_errors_json(verification, out);
  if (arguments->all && !arguments->json) write_errors_table(verification, out);
  int result = cli_verify_judge(verification);
  if (result && (arguments->all || arguments->json)) TRY_EXIT(print_page(out));
  return result;
}

/* model: opened on the device that the executable uses. */
static int compare_with(const verify_arguments *arguments, const verification *verification,
                        model *model, page *out) {
  page ignored = {0};
  TRY_EXIT(open_session(model, SESSION_WIDE));
  int result = set_inputs(&verification->inputs, model);
  clave_status st = result ? NULL : clave_session_run(model->session, model->method.name);
  if (st) result = fail_status(st);
  if (!result)
    result = compare_executable(arguments->executable, model, &verification->inputs,
                                arguments->json ? &ignored : out);
  text_free(&ignored);
  clave_session_destroy(model->session);
  return result;
}

/* Opens the device that CLAVE_DEVICE selects for an executable of --target opencl. */
static int open_executables_device(const verify_arguments *arguments, model *model) {
  const char *named = getenv("CLAVE_DEVICE");
  const model_arguments on = {.device = named && *named ? NULL : "opencl",
                              .allow_custom_kernels = arguments->model.allow_custom_kernels};
  TRY_EXIT(open_device(&on, model));
  if (strcmp(model->device_info.kind, "opencl") == 0) return EXIT_GOOD;
  return fail("%s needs an OpenCL device, and CLAVE_DEVICE selects \"%s\"", arguments->executable,
              named);
}

static int verify_executable(const verify_arguments *arguments, const verification *verification,
                             page *out) {
  model model = {.program = verification->model->program, .method = verification->model->method};
  bool is_opencl;
  TRY_EXIT(query_executable(arguments->executable, &is_opencl));
  if (!is_opencl) {
    model.device = verification->cpu.device;
    model.device_info.kind = "cpu";
    return compare_with(arguments, verification, &model, out);
  }
  int result = open_executables_device(arguments, &model);
  if (!result) result = compare_with(arguments, verification, &model, out);
  clave_device_destroy(model.device);
  return result;
}

static int verify_results(const verify_arguments *arguments, model *model, page *out) {
  verification verification = {.model = model};
  int result = cli_verify_take_inputs(arguments, model, &verification.inputs);
  if (!result) result = open_device(&arguments->model, model);
  if (!result) result = open_session(model, SESSION_WIDE);
  if (!result) result = cli_verify_compare(arguments, &verification, out);
  if (!result && !arguments->json) print_compared(&verification, out);
  if (!result && arguments->executable) result = verify_executable(arguments, &verification, out);
  free_verification(&verification);
  return result;
}

static int cli_verify_program(const void *given, page *out) {
  const verify_arguments *arguments = given;
  model model = {0};
  int result = open_program(&arguments->model, &model);
  if (!result) {
    show_progress("checking hashes");
    clave_status st = clave_program_check_hashes(model.program);
    clear_progress();
    result = st ? fail_status(st) : EXIT_GOOD;
  }
  if (!result) text_puts(out, "program  good: structure, shapes, dtypes, hashes\n");
  if (!result && wants_results(arguments)) result = verify_results(arguments, &model, out);
  if (!result && !wants_results(arguments) &&
      (arguments->model.device || arguments->model.no_fallback))
    print_note(
        NULL,
        "only the structure was checked; pass --run or --reference to compare results on a device");
  close_model(&model);
  return result;
}

const command verify_command = {
    .name = "verify",
    .usage = "verify PROG [--reference R.safetensors] [--run] [--executable BIN] ...",
    .summary = "Checks a program and, on request, its results, node by node.",
    .more =
        "Compares results of the device and the CPU backend, with and without fusion, before and\n"
        "after graph passes, and with those of the reference and the executable. Floats may\n"
        "differ by a measured bound on rounding (docs/howto/verify.md). Integers, and the results\n"
        "of an executable, must be equal. Names the first node beyond the bound, its inputs, and\n"
        "whether the error arose in it or in an earlier node.\n",
    .flags = verify_flags,
    .n_flags = LENGTH(verify_flags),
    .arguments_size = sizeof(verify_arguments),
    .run = cli_verify_program,
};
