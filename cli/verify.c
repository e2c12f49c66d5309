/* clave verify: a program's structure and hashes; and its results, node by node, on a device,
 * after the passes, compiled, and as a file has them. */
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
     "input_0..., output_0... and what nodes give (node.NAME), as python -m clave.reference writes "
     "them",
     0, 0},
    {"--run", FLAG_SWITCH, offsetof(verify_arguments, run), NULL,
     "compares results without a reference, too, on seeded inputs as clave bench draws them", 0, 0},
    {"--inputs", FLAG_PATH, offsetof(verify_arguments, inputs), "I.safetensors",
     "the same on these inputs", 0, 0},
    {"--input", FLAG_INPUTS, offsetof(verify_arguments, input), "NAME=F.npy",
     "one input, or its numbers: NAME=1,2,3; repeatable, wins over --inputs", 0, 0},
    {"--executable", FLAG_PATH, offsetof(verify_arguments, executable), "BIN",
     "what clave compile made of the program: runs it on the same inputs", 0, 0},
    {"--all", FLAG_SWITCH, offsetof(verify_arguments, all), NULL,
     "a table of all nodes; printed also where they differ", 0, 0},
    {"--json", FLAG_SWITCH, offsetof(verify_arguments, json), NULL, "the same for programs", 0, 0},
    {"--html", FLAG_WRITTEN, offsetof(verify_arguments, html), "F.html",
     "writes the graph, coloured by error, and the table as a page", 0, 0},
    METHOD_FLAG(verify_arguments),
    DEVICE_FLAGS(verify_arguments),
};

/* Others than inputs in a reference. */
static const char *const others[] = {"output_", "node.", NULL};

static bool wants_results(const verify_arguments *a) {
  return a->reference || a->run || a->inputs || a->input.count || a->executable || a->all ||
         a->json || a->html;
}

static int take_inputs(const verify_arguments *a, const model *m, input_set *inputs) {
  if (a->reference && a->inputs) return fail("--reference has the inputs: --inputs adds none");
  TRY_EXIT(describe_inputs(m, inputs));
  if (!a->reference && !a->inputs && !a->input.count) return invent_inputs(inputs);
  if (a->reference) TRY_EXIT(read_input_file(inputs, a->reference, others));
  if (a->inputs) TRY_EXIT(read_input_file(inputs, a->inputs, NULL));
  TRY_EXIT(read_input_list(inputs, &a->input));
  return check_inputs(inputs);
}

/* ---------------------------------------------------------------- the comparisons */

static bool is_on_cpu(const model *m) { return strcmp(m->device_info.kind, "cpu") == 0; }

static void say_compared(const verification *v, page *out) {
  const stage *device = &v->stages[STAGE_DEVICE], *fusion = &v->stages[STAGE_FUSION],
              *passes = &v->stages[STAGE_PASSES], *file = &v->stages[STAGE_REFERENCE];
  const uint32_t n_outputs = v->m->method.n_outputs;
  if (device->name) {
    text_printf(out, "ops      %" PRIu32 " results equal on ", device->compared - n_outputs);
    page_device(out, v->m);
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
    equal += file->pointers[v->base.count - n_outputs + i] != NULL;
  if (file->compared > equal)
    text_printf(out, "nodes    %" PRIu32 " results equal to the reference\n",
                file->compared - equal);
  text_printf(out, "outputs  %" PRIu32 " equal to the reference on ", equal);
  page_device(out, v->m);
  text_puts(out, "\n");
}

/* What the comparisons say, after all were made that could be: the first that failed. */
static int judge(const verification *v) {
  for (int i = 0; i < N_STAGES; i++) {
    const stage *s = &v->stages[i];
    page what = {0};
    if (s->name && s->pair.errors) describe_stage(v, s, &what);
    int result = what.failed ? fail_memory() : what.size ? fail("%s", what.data) : EXIT_GOOD;
    text_free(&what);
    TRY_EXIT(result);
  }
  return EXIT_GOOD;
}

static int compare(const verify_arguments *a, verification *v, page *out) {
  TRY_EXIT(begin_verification(v));
  TRY_EXIT(is_on_cpu(v->m) ? compare_fusion(v) : compare_device(v));
  TRY_EXIT(compare_passes(v));
  if (a->reference) TRY_EXIT(compare_reference(v));
  if (a->html) TRY_EXIT(write_error_page(v, a->model.program, a->html));
  if (a->json) out->size = 0;
  if (a->json) write_errors_json(v, out);
  if (a->all && !a->json) write_errors_table(v, out);
  int result = judge(v);
  if (result && (a->all || a->json)) TRY_EXIT(print_page(out));
  return result;
}

/* m: with the device that the executable runs on. */
static int compare_with(const verify_arguments *a, const verification *v, model *m, page *out) {
  page ignored = {0};
  TRY_EXIT(open_session(m, SESSION_WIDE));
  int result = set_inputs(&v->inputs, m);
  clave_status st = result ? NULL : clave_session_run(m->session, m->method.name);
  if (st) result = fail_status(st);
  if (!result) result = compare_executable(a->executable, m, &v->inputs, a->json ? &ignored : out);
  text_free(&ignored);
  clave_session_destroy(m->session);
  return result;
}

/* The device that CLAVE_DEVICE chooses for an executable of --target opencl. */
static int open_executables_device(const verify_arguments *a, model *m) {
  const char *named = getenv("CLAVE_DEVICE");
  const model_arguments on = {.device = named && *named ? NULL : "opencl",
                              .allow_custom_kernels = a->model.allow_custom_kernels};
  TRY_EXIT(open_device(&on, m));
  if (strcmp(m->device_info.kind, "opencl") == 0) return EXIT_GOOD;
  return fail("%s runs on OpenCL devices, and CLAVE_DEVICE is \"%s\"", a->executable, named);
}

static int verify_executable(const verify_arguments *a, const verification *v, page *out) {
  model m = {.program = v->m->program, .method = v->m->method};
  bool is_opencl;
  TRY_EXIT(ask_executable(a->executable, &is_opencl));
  if (!is_opencl) {
    m.device = v->cpu.device;
    m.device_info.kind = "cpu";
    return compare_with(a, v, &m, out);
  }
  int result = open_executables_device(a, &m);
  if (!result) result = compare_with(a, v, &m, out);
  clave_device_destroy(m.device);
  return result;
}

static int verify_results(const verify_arguments *a, model *m, page *out) {
  verification v = {.m = m};
  int result = take_inputs(a, m, &v.inputs);
  if (!result) result = open_device(&a->model, m);
  if (!result) result = open_session(m, SESSION_WIDE);
  if (!result) result = compare(a, &v, out);
  if (!result && !a->json) say_compared(&v, out);
  if (!result && a->executable) result = verify_executable(a, &v, out);
  free_verification(&v);
  return result;
}

static int verify_program(const void *arguments, page *out) {
  const verify_arguments *a = arguments;
  model m = {0};
  int result = open_program(&a->model, &m);
  if (!result) {
    show_progress("checking hashes");
    clave_status st = clave_program_check_hashes(m.program);
    clear_progress();
    result = st ? fail_status(st) : EXIT_GOOD;
  }
  if (!result) text_puts(out, "program  good: structure, shapes, dtypes, hashes\n");
  if (!result && wants_results(a)) result = verify_results(a, &m, out);
  if (!result && !wants_results(a) && (a->model.device || a->model.no_fallback))
    print_note(NULL,
               "only the structure was checked, nothing was compared on a device: --run or "
               "--reference does");
  close_model(&m);
  return result;
}

const command verify_command = {
    .name = "verify",
    .usage = "verify PROG [--reference R.safetensors] [--run] [--executable BIN] ...",
    .summary = "Checks a program; if asked, also its results, node by node.",
    .more =
        "Results are compared on the device and the CPU backend, joined and not, before and after "
        "the\npasses, with the reference's and the executable's. Floats may differ by what "
        "rounding explains, which "
        "is measured\n(docs/verify.md); integers, and what an executable gives, are equal. The "
        "first node beyond that is\nnamed, with what it reads and whether it or an earlier one "
        "made the error.\n",
    .flags = verify_flags,
    .n_flags = LENGTH(verify_flags),
    .arguments_size = sizeof(verify_arguments),
    .run = verify_program,
};
