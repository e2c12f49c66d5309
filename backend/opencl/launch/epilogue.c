/* Runs an op's epilogue at the end of one of its kernels. After its stores, the kernel invokes
 * EPILOGUE(y, first, n): the work-item applies the steps to n neighbours of out from y on, which
 * have index `first` and following in out. The source is the text of the steps, then the kernel's
 * file; the steps' operands are appended to the kernel's parameters. */
#include "ops/epilogue.h"

#include <stdio.h>
#include <string.h>

#include "backend/opencl/launch/steps.h"
#include "backend/opencl/launch/stream.h"

/* If the steps change the dtype of the result, a kernel that has the result in private memory
 * invokes STORE_RESULT(y, from, first, n) instead, which applies the steps to n neighbours from
 * `from` on and stores them from y on. Other kernels write the result to scratch memory, and a
 * separate launch applies the steps. */

struct fused_epilogue {
  steps_text text;
  const kernel_signature *base; /* signature of the kernel that runs it */
};

/* ---------------------------------------------------------------- source text */

/* Writes ", TYPE NAME" for each parameter; without `types`, ", NAME". */
static void write_list(text *text, const arg_info *args, int n, bool types) {
  for (int i = 0; i < n; i++) text_printf(text, ", %s %s", types ? args[i].type : "", args[i].name);
}

static void opencl_epilogue_write_function(const steps_text *steps_text, text *text,
                                           const arg_info *args, int n) {
  const bool has_from = steps_change_dtype(steps_text);
  steps_include(steps_text, text);
  text_printf(text, "static inline void run_epilogue(__global STORAGE(%s) *y, ",
              dtype_name(steps_text->desc.out->tensor.type));
  if (has_from)
    text_printf(text, "const STORAGE(%s) *from, ", dtype_name(steps_text->desc.result.tensor.type));
  text_printf(text, "index_t first, index_t n");
  write_list(text, args, n, true);
  text_printf(text, ") {\n");
  steps_write_lines(steps_text, text, 1);
  text_printf(text, "}\n#define %s run_epilogue(y, %sfirst, n",
              has_from ? "STORE_RESULT(y, from, first, n)" : "EPILOGUE(y, first, n)",
              has_from ? "from, " : "");
  write_list(text, args, n, false);
  text_printf(text, ")\n");
}

static int list_own(const steps_text *text, arg_info *args) {
  int n = 0;
  steps_list_inputs(text, 1, args, &n);
  steps_list_numbers(text, args, &n);
  return n;
}

static clave_status opencl_epilogue_write_file(const void *ctx, text *text, arg_info *args,
                                               int *n_args) {
  const fused_epilogue *fused = ctx;
  const kernel_signature *signature = fused->base;
  memcpy(args, signature->args, sizeof *args * (size_t)signature->n_args);
  int n = list_own(&fused->text, args + signature->n_args);
  *n_args = signature->n_args + n;
  opencl_epilogue_write_function(&fused->text, text, args + signature->n_args, n);
  text_printf(text, "#include \"%s.cl\"\n", signature->stem);
  return text_status(text);
}

/* ---------------------------------------------------------------- launch */

static bool opencl_epilogue_fits(const fused_epilogue *fused, const launch *launch) {
  const int n = launch->signature->n_args;
  arg_info all[2 * MAX_LAUNCH_ARGS];
  memcpy(all, launch->signature->args, sizeof *all * (size_t)n);
  const kernel_signature joined = {.args = all, .n_args = n + list_own(&fused->text, all + n)};
  return !steps_divide(&fused->text) && joined.n_args <= MAX_LAUNCH_ARGS &&
         args_max_bytes(&joined) <= MAX_LAUNCH_BYTES;
}

static void opencl_epilogue_join(launch *launch, fused_epilogue *fused) {
  fused->base = launch->signature;
  launch->generate = opencl_epilogue_write_file;
  launch->generate_ctx = fused;
  launch_define(launch, "EPILOGUE_RANK", fused->text.rank);
  launch_define(launch, "EPILOGUE_INNER", steps_inner_code(&fused->text));
  steps_push_inputs(&fused->text, 1, launch);
  steps_push_numbers(&fused->text, launch);
}

void launch_epilogue(launch *launch) { launch_epilogue_of_part(launch, true); }

void launch_epilogue_of_part(launch *launch, bool last) {
  fused_epilogue *fused = launch->recorder->epilogue;
  if (!fused || steps_change_dtype(&fused->text) || !opencl_epilogue_fits(fused, launch)) return;
  if (last) launch->recorder->epilogue = NULL;
  opencl_epilogue_join(launch, fused);
}

/* ---------------------------------------------------------------- results whose dtype differs */

bound_tensor op_result(const cl_recorder *recorder, const bound_tensor *out) {
  const fused_epilogue *fused = recorder->epilogue;
  return fused && steps_change_dtype(&fused->text) ? fused->text.desc.result : *out;
}

void launch_epilogue_of_result(launch *launch) {
  fused_epilogue *fused = launch->recorder->epilogue;
  int i = 0;
  if (!fused || !steps_change_dtype(&fused->text) || !opencl_epilogue_fits(fused, launch)) return;
  const arg_buffer out = buffer_arg(fused->text.desc.out);
  while (launch->values[i].kind != VALUE_RESULT) i++;
  launch->values[i] = out.value;
  launch->values[i + 1].as.i = out.offset;
  launch->recorder->epilogue = NULL;
  launch_dtype(launch, "OUT_TYPE", fused->text.desc.out->tensor.type);
  opencl_epilogue_join(launch, fused);
}

/* Places the result in scratch memory after everything that the op has requested there. */
static clave_status opencl_epilogue_place_result(cl_recorder *recorder,
                                                 const bound_tensor *result) {
  const int64_t size = (int64_t)dtype_size(result->tensor.type),
                at = ((int64_t)recorder->out->base.scratch_bytes + size - 1) / size;
  bool is_used = false;
  for (int i = 0; i < recorder->out->n; i++) {
    const recorded_launch *launch = &recorder->out->launches[i];
    for (int k = 0; k < launch->n_values; k++) {
      if (launch->values[k].kind != VALUE_RESULT) continue;
      launch->values[k].kind = VALUE_SCRATCH;
      launch->values[k + 1].as.i += at;
      is_used = true;
    }
  }
  return is_used ? recorder_scratch(recorder, (size_t)((at + tensor_numel(&result->tensor)) * size))
                 : NULL;
}

clave_status record_with_epilogue(cl_recorder *recorder, const node *node) {
  fused_epilogue fused = {.text.names = &epilogue_names};
  bool changes = false;
  if (describe_own_epilogue(node, &fused.text.desc)) {
    TRY(steps_plan(&fused.text));
    recorder->epilogue = &fused;
    changes = steps_change_dtype(&fused.text);
  }
  TRY(opencl_table[node->instruction->op_type](recorder, node));
  if (recorder->epilogue) TRY(launch_epilogue_alone(recorder, node));
  return changes ? opencl_epilogue_place_result(recorder, &fused.text.desc.result) : NULL;
}
