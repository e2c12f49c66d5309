/* Records nodes, once per schedule, and chooses their threads. */
#include <stdio.h>
#include <stdlib.h>

#include "backend/cpu/recorder.h"

/* parameters: number of threads; 0: all. */
static bool has_threads(const void *cpu, const kernel_variant *variant) {
  return variant->parameters[0] < cpu_kernel_context(cpu).n_threads;
}

static const kernel_variant thread_variants[] = {{.name = "all"},
                                                 {"1", has_threads, .parameters = {1}},
                                                 {"2", has_threads, .parameters = {2}},
                                                 {"4", has_threads, .parameters = {4}},
                                                 {"8", has_threads, .parameters = {8}},
                                                 {"16", has_threads, .parameters = {16}},
                                                 {"32", has_threads, .parameters = {32}}};

static void add_steps(tuning_key *key, const ir_steps *steps) {
  char kinds[128];
  int n = 0;
  for (uint32_t i = 0; i < steps->count && n < (int)sizeof kinds - 16; i++)
    n += snprintf(kinds + n, sizeof kinds - (size_t)n, "%s%d", i ? "," : "",
                  (int)steps->items[i].kind);
  if (n) tuning_key_text(key, "steps", kinds);
}

static void add_operand_to_key(tuning_key *key, const char *name, const tensor *tensor) {
  char shape[128], value[192];
  (void)snprintf(value, sizeof value, "%s%s", dtype_name(tensor->type),
                 tensor_shape_text(tensor, shape, sizeof shape));
  tuning_key_text(key, name, value);
  tuning_key_encoding(key, "encoding", &tensor->encoding);
}

/* Returns the number of threads, 0 for all: small nodes are slower with many threads. */
static int choose_n_threads(cpu_recorder *recorder, const node *node) {
  enum { SMALL = 4096 }; /* fewer elements than any kernel splits */
  const ir_instruction *ins = node->instruction;
  int64_t elements = 0;
  tuning_key key = cpu_key(recorder);
  if (!key.is_wanted) return 0;
  for (operand_iter i = operands_of(ins); next_operand(&i);)
    elements += tensor_numel(&node->tensors[i.operand.tid].tensor);
  if (elements < SMALL) return 0;
  tuning_key_text(&key, "op", op_table[ins->op_type].name);
  for (operand_iter i = operands_of(ins); next_operand(&i);)
    add_operand_to_key(&key, i.operand.field, &node->tensors[i.operand.tid].tensor);
  if (ins->op_type == IR_OP_ELEMENTWISE) add_steps(&key, &((const ir_elementwise *)ins->op)->steps);
  const variants all = {.family = "threads",
                        .rows = thread_variants,
                        .n = sizeof thread_variants / sizeof *thread_variants,
                        .problem = recorder->backend};
  return (int)cpu_choose(recorder, &all, &key)->parameters[0];
}

bool cpu_bf16_rule_holds(backend *backend, cpu_bf16_rule rule, const node *node, uint32_t slot) {
  cpu_recording none = {0};
  cpu_recorder recorder = {.backend = backend, .out = &none, .fast = true};
  const bool yes = rule(&recorder, node, slot) && !recorder.failed;
  free(recorder.places);
  return yes;
}

clave_status cpu_record(backend *backend, const node *node, bool fast, recording **out) {
  *out = NULL;
  ir_op op = node->instruction->op_type;
  if (op >= IR_OP_COUNT || !cpu_table[op])
    return UNSUPPORTED("op %d has no kernel on the CPU backend", (int)op);
  cpu_recording *made = calloc(1, sizeof *made);
  if (!made) return status_no_memory();
  cpu_recorder recorder = {.backend = backend, .out = made, .fast = fast, .choices = node->choices};
  recorder.n_threads = choose_n_threads(&recorder, node);
  clave_status st = cpu_table[op](&recorder, node);
  if (!st && !recorder.has_epilogue) st = cpu_epilogue(&recorder, node);
  free(recorder.places);
  if (st) {
    cpu_recording_destroy(backend, &made->base);
    return st;
  }
  *out = &made->base;
  return NULL;
}
