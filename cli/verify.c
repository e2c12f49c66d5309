/* clave verify: a program's structure and hashes; with reference tensors, also its results, op by
 * op. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clave_files.h"
#include "cli/inputs.h"
#include "cli/model.h"
#include "cli/progress.h"
#include "cli/records.h"
#include "cli/values.h"

typedef struct verify_arguments {
  model_arguments model;
  const char *reference;
} verify_arguments;

static const flag verify_flags[] = {
    PROGRAM_FLAGS(verify_arguments),
    {"--reference", FLAG_PATH, offsetof(verify_arguments, reference), "R.safetensors",
     "input_0... and output_0...: compares the device with the CPU backend, and the outputs", 0, 0},
    METHOD_FLAG(verify_arguments),
    DEVICE_FLAGS(verify_arguments),
};

/* ---------------------------------------------------------------- comparing tensors */

/* Differences grow through a network, and where terms cancel they are as large as rounding the
 * terms: hence relative to the tensor's largest magnitude. Integers and bools are exact. */
static double choose_tolerance(clave_dtype dtype) {
  switch (dtype) {
    case CLAVE_F64:
      return 1e-9;
    case CLAVE_F32:
      return 1e-4;
    case CLAVE_F16:
      return 1e-2;
    case CLAVE_BF16:
      return 5e-2;
    case CLAVE_F8_E4M3: /* a step of the largest */
      return 0.13;
    case CLAVE_F8_E5M2:
      return 0.26;
    default:
      return 0;
  }
}

typedef struct difference {
  bool found;
  uint64_t element; /* the worst, row-major */
  double got, expected, allowed;
} difference;

static bool same_form(const clave_tensor *a, const clave_tensor *b) {
  bool same = a->dtype == b->dtype && a->rank == b->rank;
  for (int i = 0; same && i < a->rank; i++) same = a->dims[i] == b->dims[i];
  return same;
}

static double find_largest(const clave_tensor *t, uint64_t count) {
  double largest = 0;
  for (uint64_t i = 0; i < count; i++) {
    double size = fabs(load_number(t->dtype, element_at(t, i)));
    if (isfinite(size) && size > largest) largest = size;
  }
  return largest;
}

/* How far two elements are apart; infinite where one is NaN or infinite and the other differs. */
static double measure_distance(double a, double b) {
  if (a == b || (isnan(a) && isnan(b))) return 0;
  double distance = fabs(a - b);
  return isnan(distance) ? (double)INFINITY : distance;
}

/* Of the same form. */
static difference compare_tensors(const clave_tensor *got, const clave_tensor *expected) {
  uint64_t count = count_elements(got);
  difference d = {.allowed = choose_tolerance(got->dtype) * find_largest(expected, count)};
  double worst = 0;
  for (uint64_t i = 0; i < count; i++) {
    const void *x = element_at(got, i), *y = element_at(expected, i);
    double a = load_number(got->dtype, x), b = load_number(got->dtype, y);
    double distance = measure_distance(a, b);
    if (is_integer(got->dtype) && load_integer(got->dtype, x) != load_integer(got->dtype, y)) {
      distance = fmax(distance, 1);
    }
    if (distance <= d.allowed || distance <= worst) continue;
    worst = distance;
    d = (difference){true, i, a, b, d.allowed};
  }
  return d;
}

/* "F32 [3, 4] at element 7: 0.5, expected 0.25 (allowed 2.5e-05)" */
static void describe_difference(page *t, const clave_tensor *got, const difference *d,
                                const char *other) {
  page_shape(t, got);
  text_printf(t, " at element %" PRIu64 ": %.9g, %s %.9g (%.3g allowed)", d->element, d->got, other,
              d->expected, d->allowed);
}

/* ---------------------------------------------------------------- op by op */

/* What the CPU backend gave, and how the device compares. */
typedef struct comparison {
  records cpu;
  size_t next;             /* where to look first */
  const record *differing; /* borrowed from cpu; NULL: none yet */
  difference difference;
  uint32_t compared;
} comparison;

/* Both runs are in program order: mostly it is the next one. */
static const record *find_record(comparison *c, uint32_t node, uint32_t slot) {
  const records *r = &c->cpu;
  for (size_t i = 0; i < r->count; i++) {
    const record *item = &r->items[(c->next + i) % r->count];
    if (item->node != node || item->slot != slot) continue;
    c->next = (c->next + i + 1) % r->count;
    return item;
  }
  return NULL;
}

static bool compare_record(void *ctx, uint32_t node, uint32_t slot, const clave_tensor *value) {
  comparison *c = ctx;
  const record *item = find_record(c, node, slot);
  if (!item || c->differing) return !c->differing;
  c->compared++;
  if (same_form(value, &item->value)) {
    c->difference = compare_tensors(value, &item->value);
    if (!c->difference.found) return true;
  }
  c->differing = item;
  return false;
}

static int report_op(const model *m, const comparison *c) {
  clave_node_info node = {.size = sizeof node};
  clave_tensor_info slot = {.size = sizeof slot};
  page what = {0};
  const record *item = c->differing;
  TRY_STATUS(clave_program_node(m->program, m->method.name, item->node, &node));
  TRY_STATUS(clave_program_slot(m->program, item->slot, &slot));
  text_printf(&what, "node %" PRIu32 " (%s %s) is the first that differs from the CPU backend: %s ",
              item->node, node.op, node.name, slot.name);
  if (c->difference.found) {
    describe_difference(&what, &item->value, &c->difference, "cpu");
  } else {
    page_shape(&what, &item->value);
    text_puts(&what, " there, another shape or dtype here");
  }
  int result = what.data ? fail("%s", what.data) : fail_memory();
  text_free(&what);
  return result;
}

static int observe_run(const model *m, const input_set *inputs, clave_observe_fn observe, void *ctx,
                       const comparison *c) {
  TRY_STATUS(clave_session_observe(m->session, observe, ctx));
  TRY_EXIT(set_inputs(inputs, m));
  clave_status st = clave_session_run(m->session, m->method.name);
  if (c->cpu.no_memory || c->differing) {
    clave_status_free(st); /* the run was stopped by us */
    return c->cpu.no_memory ? fail_memory() : report_op(m, c);
  }
  if (st) return fail_status(st);
  return EXIT_GOOD;
}

/* On the CPU backend, keeping what every op gives. */
static int record_cpu(const model *m, const input_set *inputs, comparison *c) {
  model_arguments on_cpu = {.device = "cpu"};
  model cpu = {.program = m->program, .method = m->method};
  int result = open_device(&on_cpu, &cpu);
  if (!result) result = open_session(&cpu, SESSION_UNFUSED);
  show_progress("running on the CPU backend");
  if (!result) result = observe_run(&cpu, inputs, keep_record, &c->cpu, c);
  clear_progress();
  cpu.program = NULL; /* m's */
  close_model(&cpu);
  return result;
}

static int compare_device(const model *m, const input_set *inputs, comparison *c) {
  model unfused = {.program = m->program,
                   .device = m->device,
                   .method = m->method,
                   .allow_custom_kernels = m->allow_custom_kernels};
  int result = open_session(&unfused, SESSION_UNFUSED);
  show_progress("running on the device");
  if (!result) result = observe_run(&unfused, inputs, compare_record, c, c);
  clear_progress();
  clave_session_destroy(unfused.session);
  return result;
}

static int compare_ops(const model *m, const input_set *inputs, page *out) {
  comparison c = {0};
  int result = record_cpu(m, inputs, &c);
  if (!result) result = compare_device(m, inputs, &c);
  if (!result) {
    text_printf(out, "ops      %" PRIu32 " results equal on ", c.compared);
    page_device(out, m);
    text_puts(out, " and the CPU backend\n");
  }
  free_records(&c.cpu);
  return result;
}

/* ---------------------------------------------------------------- outputs */

static int compare_output(const model *m, const clave_tensors *reference, uint32_t index,
                          uint32_t *compared) {
  char key[24];
  clave_tensor_info info = {.size = sizeof info};
  clave_tensor got, expected;
  (void)snprintf(key, sizeof key, "output_%" PRIu32, index);
  if (!clave_tensors_find(reference, key, &expected)) return EXIT_GOOD;
  TRY_STATUS(clave_program_output(m->program, m->method.name, index, &info));
  TRY_STATUS(clave_session_output(m->session, m->method.name, index, &got));
  page what = {0};
  text_printf(&what, "%s (%s) differs from the reference: ", key, info.name);
  if (!same_form(&got, &expected)) {
    page_shape(&what, &got);
    text_puts(&what, ", expected ");
    page_shape(&what, &expected);
  } else {
    difference d = compare_tensors(&got, &expected);
    if (!d.found) {
      text_free(&what);
      (*compared)++;
      return EXIT_GOOD;
    }
    describe_difference(&what, &got, &d, "expected");
  }
  int result = what.data ? fail("%s", what.data) : fail_memory();
  text_free(&what);
  return result;
}

static int compare_outputs(const model *m, const input_set *inputs, page *out) {
  uint32_t compared = 0;
  TRY_EXIT(set_inputs(inputs, m));
  show_progress("running");
  TRY_STATUS(clave_session_run(m->session, m->method.name));
  clear_progress();
  for (uint32_t i = 0; i < m->method.n_outputs; i++)
    TRY_EXIT(compare_output(m, inputs->file, i, &compared));
  if (!compared) return fail("the reference has none of the outputs (output_0...)");
  text_printf(out, "outputs  %" PRIu32 " equal to the reference on ", compared);
  page_device(out, m);
  text_puts(out, "\n");
  return EXIT_GOOD;
}

/* ---------------------------------------------------------------- the command */

static int verify_results(const verify_arguments *a, model *m, input_set *inputs, page *out) {
  TRY_EXIT(describe_inputs(m, inputs));
  TRY_EXIT(read_input_file(inputs, a->reference, "output_"));
  TRY_EXIT(check_inputs(inputs));
  TRY_EXIT(open_device(&a->model, m));
  TRY_EXIT(open_session(m, SESSION_PLAIN));
  if (strcmp(m->device_info.kind, "cpu") != 0) TRY_EXIT(compare_ops(m, inputs, out));
  return compare_outputs(m, inputs, out);
}

static int verify_program(const void *arguments, page *out) {
  const verify_arguments *a = arguments;
  model m = {0};
  input_set inputs = {0};
  int result = open_program(&a->model, &m);
  if (!result) {
    show_progress("checking hashes");
    clave_status st = clave_program_check_hashes(m.program);
    clear_progress();
    result = st ? fail_status(st) : EXIT_GOOD;
  }
  if (!result) text_puts(out, "program  good: structure, shapes, dtypes, hashes\n");
  if (!result && a->reference) result = verify_results(a, &m, &inputs, out);
  free_inputs(&inputs);
  close_model(&m);
  return result;
}

const command verify_command = {
    .name = "verify",
    .usage = "verify PROG [--reference R.safetensors] ...",
    .summary = "Checks a program; with a reference, also its results, op by op.",
    .more =
        "Allowed difference, relative to the largest magnitude of the tensor: F64 1e-9, F32 1e-4, "
        "F16 1e-2,\n"
        "BF16 5e-2; integers and bools are exact. The first op beyond it is named.\n",
    .flags = verify_flags,
    .n_flags = LENGTH(verify_flags),
    .arguments_size = sizeof(verify_arguments),
    .run = verify_program,
};
