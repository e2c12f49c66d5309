/* Custom: a user-defined op with kernels in OpenCL C and a chain of other ops that computes the
 * same. The verifier cannot know what a kernel does, but it checks the interface: texts
 * and names are bounded, parameters refer to the op's tensors, and grids fit in counters. */
#include "ops/custom.h"

#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "ops/rule_checks.h"

enum {
  MAX_TEXT = 256 << 10, /* bytes of a kernel's source */
  MAX_NAME = 64,
  MAX_TARGET = 256,
  MAX_KERNELS = 8,
  MAX_PARAMETERS = 30,
  MAX_GRID_DIMS = 3,
  MAX_GROUP = 256
};
static const int64_t MAX_WORK_ITEMS = (int64_t)1 << 40, MAX_LOCAL_BYTES = 1 << 30;

/* ---------------------------------------------------------------- used by backends */

const ir_custom_kernel *custom_kernel_for(const ir_custom *op, const char *device_type) {
  static const char *const types[] = {
      [IR_CUSTOM_DEVICE_CPU] = "CPU", [IR_CUSTOM_DEVICE_GPU] = "GPU"};
  for (uint32_t i = 0; i < op->kernels.count; i++) {
    const ir_custom_kernel *kernel = &op->kernels.items[i];
    if (kernel->device == IR_CUSTOM_DEVICE_ANY || strcmp(types[kernel->device], device_type) == 0)
      return kernel;
  }
  return NULL;
}

int64_t custom_group_size(const ir_custom_kernel *kernel) {
  int64_t n = 1;
  for (uint32_t i = 0; i < kernel->local.count; i++) n *= kernel->local.items[i];
  return n;
}

bool custom_is_result(const ir_custom *op, const ir_custom_parameter *parameter) {
  return parameter->index >= op->args.count;
}

uint32_t custom_tensor(const ir_custom *op, const ir_custom_parameter *parameter) {
  return custom_is_result(op, parameter) ? op->results.items[parameter->index - op->args.count]
                                         : op->args.items[parameter->index];
}

/* ---------------------------------------------------------------- kernels */

static bool is_identifier(const char *name) {
  if (!is_ascii_letter(name[0]) && name[0] != '_') return false;
  size_t n = 1;
  while (is_ascii_alnum(name[n]) || name[n] == '_') n++;
  return name[n] == 0 && n <= MAX_NAME;
}

static clave_status check_number(const ir_custom_parameter *parameter) {
  bool is_float = parameter->kind == IR_CUSTOM_PARAMETER_KIND_FLOAT ||
                  parameter->kind == IR_CUSTOM_PARAMETER_KIND_DOUBLE;
  if (is_float ? parameter->f.present : parameter->i.present) return NULL;
  return INVALID("expected a value in %s", is_float ? "f" : "i");
}

static clave_status check_local(const rule_context *context, const ir_custom_parameter *parameter) {
  int64_t n;
  TRY(check_number(parameter));
  if (!rule_int(context, &parameter->i, &n)) return NULL;
  if (n >= 1 && n <= MAX_LOCAL_BYTES / (int64_t)dtype_size(parameter->dtype)) return NULL;
  return INVALID("local memory: expected 1 to %lld elements, got %lld",
                 (long long)(MAX_LOCAL_BYTES / (int64_t)dtype_size(parameter->dtype)),
                 (long long)n);
}

static clave_status op_custom_check_parameter(const rule_context *context, const ir_custom *op,
                                              const ir_custom_parameter *parameter) {
  if (!is_identifier(parameter->name))
    return INVALID("'%.100s': expected a C name of at most %d letters", parameter->name,
                   (int)MAX_NAME);
  if (parameter->kind == IR_CUSTOM_PARAMETER_KIND_LOCAL) return check_local(context, parameter);
  if (parameter->kind != IR_CUSTOM_PARAMETER_KIND_TENSOR) return check_number(parameter);
  uint64_t tensors = (uint64_t)op->args.count + op->results.count;
  return parameter->index < tensors ? NULL
                                    : INVALID("tensor %u is out of range: the op has %llu tensors",
                                              parameter->index, (unsigned long long)tensors);
}

/* Fails unless exactly one parameter points to each result. */
static clave_status check_results(const ir_custom *op, const ir_custom_kernel *kernel) {
  for (uint32_t r = 0; r < op->results.count; r++) {
    int found = 0;
    for (uint32_t i = 0; i < kernel->parameters.count; i++) {
      const ir_custom_parameter *parameter = &kernel->parameters.items[i];
      found += parameter->kind == IR_CUSTOM_PARAMETER_KIND_TENSOR &&
               parameter->index == op->args.count + r;
    }
    if (found != 1)
      return INVALID("result %u: expected one parameter that writes it, got %d", r, found);
  }
  return NULL;
}

static clave_status check_parameters(const rule_context *context, const ir_custom *op,
                                     const ir_custom_kernel *kernel) {
  if (kernel->parameters.count > MAX_PARAMETERS)
    return INVALID("%u parameters, at most %d are allowed", kernel->parameters.count,
                   (int)MAX_PARAMETERS);
  for (uint32_t i = 0; i < kernel->parameters.count; i++) {
    const ir_custom_parameter *parameter = &kernel->parameters.items[i];
    TRY(status_while(op_custom_check_parameter(context, op, parameter), "parameter %u", i));
    for (uint32_t j = 0; j < i; j++)
      if (strcmp(parameter->name, kernel->parameters.items[j].name) == 0)
        return INVALID("two parameters are named '%s'", parameter->name);
  }
  return check_results(op, kernel);
}

static clave_status check_grid(const rule_context *context, const ir_custom_kernel *kernel) {
  int64_t group = 1, total = 1;
  if (kernel->global.count < 1 || kernel->global.count > MAX_GRID_DIMS ||
      kernel->local.count != kernel->global.count)
    return INVALID("grid and groups: expected 1 to %d dimensions of both, got %u and %u",
                   (int)MAX_GRID_DIMS, kernel->global.count, kernel->local.count);
  for (uint32_t i = 0; i < kernel->local.count; i++) {
    int64_t n = kernel->local.items[i];
    if (n < 1 || !mul_i64(group, n, &group) || group > MAX_GROUP)
      return INVALID(
          "groups: expected at least 1 work-item in a dimension and at most %d in all, got "
          "%lld in dimension %u",
          (int)MAX_GROUP, (long long)n, i);
  }
  for (uint32_t i = 0; i < kernel->global.count; i++) {
    int64_t n;
    if (!rule_int(context, &kernel->global.items[i], &n)) continue;
    if (n < 0 || (n > 0 && (!mul_i64(total, n, &total) || total > MAX_WORK_ITEMS)))
      return INVALID(
          "grid: expected 0 or more work-items in a dimension and at most 2^40 in all, got "
          "%lld in dimension %u",
          (long long)n, i);
  }
  return NULL;
}

static clave_status check_text(const ir_custom_kernel *kernel) {
  size_t n = strlen(kernel->prelude) + strlen(kernel->body);
  if (n > MAX_TEXT) return INVALID("a text of %zu bytes, at most %d are allowed", n, (int)MAX_TEXT);
  const char *texts[] = {kernel->prelude, kernel->body};
  for (int i = 0; i < 2; i++)
    if (strstr(texts[i], "#include \"")) return INVALID("the text includes a file");
  return NULL;
}

static clave_status op_custom_check_kernels(const rule_context *context, const ir_custom *op) {
  if (op->kernels.count > MAX_KERNELS)
    return INVALID("%u kernels, at most %d are allowed", op->kernels.count, (int)MAX_KERNELS);
  for (uint32_t i = 0; i < op->kernels.count; i++) {
    const ir_custom_kernel *kernel = &op->kernels.items[i];
    clave_status st = check_text(kernel);
    if (!st) st = check_parameters(context, op, kernel);
    if (!st) st = check_grid(context, kernel);
    TRY(status_while(st, "kernel %u", i));
  }
  return NULL;
}

/* ---------------------------------------------------------------- the reference */

/* Slots that a reference may read: constants, args and earlier results. Ids are not checked yet. */
typedef struct reference_check {
  const rule_context *context;
  bool *known; /* (n_tensors) */
} reference_check;

static clave_status check_read(const reference_check *check, uint32_t tid) {
  const ir_program *program = check->context->program;
  if (tid < program->tensors.count && (tid < program->constants.count || check->known[tid]))
    return NULL;
  return INVALID("reads: expected an arg, a constant or an earlier result, got tensor %u", tid);
}

static clave_status op_custom_check_node(reference_check *check, const ir_instruction *ins) {
  const op_info *info = &op_table[ins->op_type];
  if (info->is_control || ins->op_type == IR_OP_RANDOM)
    return INVALID("a reference has no %s", info->name);
  for (operand_iter i = operands_of(ins); next_operand(&i);)
    if (!(i.operand.flags & IR_OUT)) TRY(check_read(check, i.operand.tid));
  for (operand_iter i = operands_of(ins); next_operand(&i);)
    if ((i.operand.flags & IR_OUT) && i.operand.tid < check->context->program->tensors.count)
      check->known[i.operand.tid] = true;
  return NULL;
}

static clave_status op_custom_check_chain(reference_check *check, const ir_chain *chain) {
  const ir_instructions *list = &chain->instructions;
  for (uint32_t i = 0; i < chain->args.count; i++) check->known[chain->args.items[i]] = true;
  for (uint32_t i = 0; i < list->count; i++)
    TRY(status_while(op_custom_check_node(check, &list->items[i]), "node %u", i));
  for (uint32_t i = 0; i < chain->results.count; i++)
    TRY(check_read(check, chain->results.items[i]));
  return NULL;
}

static clave_status op_custom_check_reference(const rule_context *context, const ir_custom *op) {
  TRY(rule_body(context, op->reference_chain, "reference_chain", &op->args, &op->results));
  reference_check check = {
      context, calloc((size_t)context->program->tensors.count + 1, sizeof *check.known)};
  if (!check.known) return status_no_memory();
  clave_status st =
      op_custom_check_chain(&check, &context->program->chains.items[op->reference_chain]);
  free(check.known);
  return st;
}

clave_status rule_custom(const rule_context *context, const void *op) {
  const ir_custom *custom = op;
  if (!custom->target[0] || strlen(custom->target) > MAX_TARGET)
    return INVALID("name: expected 1 to %d letters, got %zu", (int)MAX_TARGET,
                   strlen(custom->target));
  if (!custom->results.count) return INVALID("'%s' has no results", custom->target);
  clave_status st = op_custom_check_kernels(context, custom);
  if (!st) st = status_while(op_custom_check_reference(context, custom), "reference_chain");
  return status_while(st, "%s", custom->target);
}
