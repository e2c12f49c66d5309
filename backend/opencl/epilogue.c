/* An op's epilogue as the last part of one of its kernels: behind its stores the kernel says
 * EPILOGUE(y, first, n), and n neighbours of out from y on, which is number `first` in out, become
 * what the steps make of them, by the work-item that stored them. The kernel's file is compiled
 * with the steps written out before it and their operands behind its own parameters. */
#include "ops/epilogue.h"

#include <stdio.h>
#include <string.h>

#include "backend/opencl/device.h"
#include "backend/opencl/steps.h"

struct epilogue_part {
  steps_text s;
  const kernel_signature *base; /* of the kernel that has it */
};

/* ---------------------------------------------------------------- source text */

/* , TYPE NAME for each parameter, or , NAME. */
static void write_list(text *t, const arg_info *args, int n, bool types) {
  for (int i = 0; i < n; i++) text_printf(t, ", %s %s", types ? args[i].type : "", args[i].name);
}

static void write_function(const steps_text *p, text *t, const arg_info *args, int n) {
  const char *out = dtype_name(p->f.out->t.type);
  steps_include(p, t);
  text_printf(
      t, "static inline void run_epilogue(__global STORAGE(%s) *y, index_t first, index_t n", out);
  write_list(t, args, n, true);
  text_printf(t, ") {\n");
  steps_write_lines(p, t, 1);
  text_printf(t, "}\n#define EPILOGUE(y, first, n) run_epilogue(y, first, n");
  write_list(t, args, n, false);
  text_printf(t, ")\n");
}

static int list_own(const steps_text *p, arg_info *args) {
  int n = 0;
  steps_list_inputs(p, 1, args, &n);
  steps_list_numbers(p, args, &n);
  return n;
}

static clave_status write_file(const void *ctx, text *t, arg_info *args, int *n_args) {
  const epilogue_part *e = ctx;
  const kernel_signature *g = e->base;
  memcpy(args, g->args, sizeof *args * (size_t)g->n_args);
  int n = list_own(&e->s, args + g->n_args);
  *n_args = g->n_args + n;
  write_function(&e->s, t, args + g->n_args, n);
  text_printf(t, "#include \"%s.cl\"\n", g->stem);
  return text_status(t);
}

/* ---------------------------------------------------------------- launch */

static bool fits(const epilogue_part *e, const launch *l) {
  arg_info own[MAX_LAUNCH_ARGS];
  return !steps_divide(&e->s) && l->signature->n_args + list_own(&e->s, own) <= MAX_LAUNCH_ARGS;
}

void launch_epilogue(launch *l) { launch_epilogue_of_part(l, true); }

void launch_epilogue_of_part(launch *l, bool last) {
  epilogue_part *e = l->s->epilogue;
  if (!e || !fits(e, l)) return;
  if (last) l->s->epilogue = NULL;
  e->base = l->signature;
  l->generate = write_file;
  l->generate_ctx = e;
  launch_define(l, "EPILOGUE_RANK", e->s.rank);
  launch_define(l, "EPILOGUE_INNER", steps_inner_code(&e->s));
  steps_push_inputs(&e->s, 1, l);
  steps_push_numbers(&e->s, l);
}

clave_status record_with_epilogue(cl_recorder *s, const node *n) {
  epilogue_part e = {.s.names = &epilogue_names};
  if (describe_epilogue(n, &e.s.f)) {
    TRY(steps_plan(&e.s));
    s->epilogue = &e;
  }
  TRY(opencl_table[n->instruction->op_type](s, n));
  return s->epilogue ? launch_epilogue_alone(s, n) : NULL;
}
