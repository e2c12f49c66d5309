/* Runs an op's epilogue as the last part of one of its kernels. After its stores the kernel invokes
 * EPILOGUE(y, first, n): the work-item applies the steps to n neighbours of out from y on, the
 * first of which has index `first` in out. The kernel's file is compiled after the text of the
 * steps, whose operands follow the kernel's parameters. */
#include "ops/epilogue.h"

#include <stdio.h>
#include <string.h>

#include "backend/opencl/launch/steps.h"
#include "backend/opencl/launch/stream.h"

/* If the steps change the dtype of the result, a kernel that has the result in private memory
 * invokes STORE_RESULT(y, from, first, n) instead. It applies the steps to n neighbours from `from`
 * on and stores them from y on. Other kernels write the result to scratch memory, which a separate
 * launch of the steps reads. */

struct epilogue_part {
  steps_text text;
  const kernel_signature *base; /* signature of the kernel that runs it */
};

/* ---------------------------------------------------------------- source text */

/* Writes ", TYPE NAME" for each parameter, or ", NAME". */
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
  const epilogue_part *part = ctx;
  const kernel_signature *signature = part->base;
  memcpy(args, signature->args, sizeof *args * (size_t)signature->n_args);
  int n = list_own(&part->text, args + signature->n_args);
  *n_args = signature->n_args + n;
  opencl_epilogue_write_function(&part->text, text, args + signature->n_args, n);
  text_printf(text, "#include \"%s.cl\"\n", signature->stem);
  return text_status(text);
}

/* ---------------------------------------------------------------- launch */

static bool opencl_epilogue_fits(const epilogue_part *part, const launch *launch) {
  arg_info own[MAX_LAUNCH_ARGS];
  return !steps_divide(&part->text) &&
         launch->signature->n_args + list_own(&part->text, own) <= MAX_LAUNCH_ARGS;
}

static void opencl_epilogue_join(launch *launch, epilogue_part *part) {
  part->base = launch->signature;
  launch->generate = opencl_epilogue_write_file;
  launch->generate_ctx = part;
  launch_define(launch, "EPILOGUE_RANK", part->text.rank);
  launch_define(launch, "EPILOGUE_INNER", steps_inner_code(&part->text));
  steps_push_inputs(&part->text, 1, launch);
  steps_push_numbers(&part->text, launch);
}

void launch_epilogue(launch *launch) { launch_epilogue_of_part(launch, true); }

void launch_epilogue_of_part(launch *launch, bool last) {
  epilogue_part *part = launch->recorder->epilogue;
  if (!part || steps_change_dtype(&part->text) || !opencl_epilogue_fits(part, launch)) return;
  if (last) launch->recorder->epilogue = NULL;
  opencl_epilogue_join(launch, part);
}

/* ---------------------------------------------------------------- results whose dtype differs */

bound_tensor op_result(const cl_recorder *recorder, const bound_tensor *out) {
  const epilogue_part *part = recorder->epilogue;
  return part && steps_change_dtype(&part->text) ? part->text.desc.result : *out;
}

void launch_epilogue_of_result(launch *launch) {
  epilogue_part *part = launch->recorder->epilogue;
  int i = 0;
  if (!part || !steps_change_dtype(&part->text) || !opencl_epilogue_fits(part, launch)) return;
  const arg_buffer out = buffer_arg(part->text.desc.out);
  while (launch->values[i].kind != VALUE_RESULT) i++;
  launch->values[i] = out.value;
  launch->values[i + 1].as.i = out.offset;
  launch->recorder->epilogue = NULL;
  launch_dtype(launch, "OUT_TYPE", part->text.desc.out->tensor.type);
  opencl_epilogue_join(launch, part);
}

/* Places the result in scratch memory after all that the op requested, now that this is known. */
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
  epilogue_part part = {.text.names = &epilogue_names};
  bool changes = false;
  if (describe_own_epilogue(node, &part.text.desc)) {
    TRY(steps_plan(&part.text));
    recorder->epilogue = &part;
    changes = steps_change_dtype(&part.text);
  }
  TRY(opencl_table[node->instruction->op_type](recorder, node));
  if (recorder->epilogue) TRY(launch_epilogue_alone(recorder, node));
  return changes ? opencl_epilogue_place_result(recorder, &part.text.desc.result) : NULL;
}
