/* An op's epilogue as the last part of one of its kernels: behind its stores the kernel says
 * EPILOGUE(y, first, n), and n neighbours of out from y on, which is number `first` in out, become
 * what the steps make of them, by the work-item that stored them. The kernel's file is compiled
 * with the steps written out before it and their operands behind its own parameters. */
#include "ops/epilogue.h"

#include <stdio.h>
#include <string.h>

#include "backend/opencl/launch/steps.h"
#include "backend/opencl/launch/stream.h"

/* Where the steps make another dtype of the op's result, a kernel that has it in private memory
 * says STORE_RESULT(y, from, first, n) instead: of n neighbours from `from` on the steps make those
 * of out from y on. Other ops' launches write the result to scratch memory, which the steps read.
 */

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
  const bool has_from = steps_change_dtype(p);
  steps_include(p, t);
  text_printf(t, "static inline void run_epilogue(__global STORAGE(%s) *y, ",
              dtype_name(p->f.out->t.type));
  if (has_from) text_printf(t, "const STORAGE(%s) *from, ", dtype_name(p->f.result.t.type));
  text_printf(t, "index_t first, index_t n");
  write_list(t, args, n, true);
  text_printf(t, ") {\n");
  steps_write_lines(p, t, 1);
  text_printf(t, "}\n#define %s run_epilogue(y, %sfirst, n",
              has_from ? "STORE_RESULT(y, from, first, n)" : "EPILOGUE(y, first, n)",
              has_from ? "from, " : "");
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

static void join(launch *l, epilogue_part *e) {
  e->base = l->signature;
  l->generate = write_file;
  l->generate_ctx = e;
  launch_define(l, "EPILOGUE_RANK", e->s.rank);
  launch_define(l, "EPILOGUE_INNER", steps_inner_code(&e->s));
  steps_push_inputs(&e->s, 1, l);
  steps_push_numbers(&e->s, l);
}

void launch_epilogue(launch *l) { launch_epilogue_of_part(l, true); }

void launch_epilogue_of_part(launch *l, bool last) {
  epilogue_part *e = l->s->epilogue;
  if (!e || steps_change_dtype(&e->s) || !fits(e, l)) return;
  if (last) l->s->epilogue = NULL;
  join(l, e);
}

/* ---------------------------------------------------------------- results of another dtype */

bound_tensor op_result(const cl_recorder *s, const bound_tensor *out) {
  const epilogue_part *e = s->epilogue;
  return e && steps_change_dtype(&e->s) ? e->s.f.result : *out;
}

void launch_epilogue_of_result(launch *l) {
  epilogue_part *e = l->s->epilogue;
  int i = 0;
  if (!e || !steps_change_dtype(&e->s) || !fits(e, l)) return;
  const arg_buffer out = buffer_arg(e->s.f.out);
  while (l->values[i].kind != VALUE_RESULT) i++;
  l->values[i] = out.value;
  l->values[i + 1].as.i = out.offset;
  l->s->epilogue = NULL;
  launch_dtype(l, "OUT_TYPE", e->s.f.out->t.type);
  join(l, e);
}

/* The result's place in scratch memory, once it is known how much the op asks for. */
static clave_status place_result(cl_recorder *s, const bound_tensor *result) {
  const int64_t size = (int64_t)dtype_size(result->t.type),
                at = ((int64_t)s->out->base.scratch_bytes + size - 1) / size;
  bool is_used = false;
  for (int i = 0; i < s->out->n; i++) {
    const recorded_launch *l = &s->out->launches[i];
    for (int k = 0; k < l->n_values; k++) {
      if (l->values[k].kind != VALUE_RESULT) continue;
      l->values[k].kind = VALUE_SCRATCH;
      l->values[k + 1].as.i += at;
      is_used = true;
    }
  }
  return is_used ? recorder_scratch(s, (size_t)((at + tensor_numel(&result->t)) * size)) : NULL;
}

clave_status record_with_epilogue(cl_recorder *s, const node *n) {
  epilogue_part e = {.s.names = &epilogue_names};
  bool changes = false;
  if (describe_own_epilogue(n, &e.s.f)) {
    TRY(steps_plan(&e.s));
    s->epilogue = &e;
    changes = steps_change_dtype(&e.s);
  }
  TRY(opencl_table[n->instruction->op_type](s, n));
  if (s->epilogue) TRY(launch_epilogue_alone(s, n));
  return changes ? place_result(s, &e.s.f.result) : NULL;
}
