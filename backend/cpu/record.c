/* Recordings of nodes, made once for a schedule. */
#include <stdio.h>
#include <stdlib.h>

#include "backend/cpu/recorder.h"

/* parameters: threads; 0: all. */
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

static void add_steps(tuning_key *k, const ir_steps *steps) {
  char kinds[128];
  int n = 0;
  for (uint32_t i = 0; i < steps->count && n < (int)sizeof kinds - 16; i++)
    n += snprintf(kinds + n, sizeof kinds - (size_t)n, "%s%d", i ? "," : "",
                  (int)steps->items[i].kind);
  if (n) tuning_key_text(k, "steps", kinds);
}

static void add_tensor(tuning_key *k, const char *name, const tensor *t) {
  char shape[128], value[192];
  (void)snprintf(value, sizeof value, "%s%s", dtype_name(t->type),
                 tensor_shape_text(t, shape, sizeof shape));
  tuning_key_text(k, name, value);
  tuning_key_encoding(k, "encoding", &t->encoding);
}

/* More threads than a node's work is worth slow it down. */
static int choose_threads(cpu_recorder *r, const node *n) {
  enum { SMALL = 4096 }; /* elements that no kernel shares out */
  const ir_instruction *ins = n->instruction;
  int64_t elements = 0;
  tuning_key k = cpu_key(r);
  if (!k.is_wanted) return 0;
  for (operand_iter i = operands_of(ins); next_operand(&i);)
    elements += tensor_numel(&n->tensors[i.o.tid].t);
  if (elements < SMALL) return 0;
  tuning_key_text(&k, "op", op_table[ins->op_type].name);
  for (operand_iter i = operands_of(ins); next_operand(&i);)
    add_tensor(&k, i.o.field, &n->tensors[i.o.tid].t);
  if (ins->op_type == IR_OP_ELEMENTWISE) add_steps(&k, &((const ir_elementwise *)ins->op)->steps);
  const variants all = {.family = "threads",
                        .rows = thread_variants,
                        .n = sizeof thread_variants / sizeof *thread_variants,
                        .problem = r->b};
  return (int)cpu_choose(r, &all, &k)->parameters[0];
}

bool cpu_ask(backend *b, cpu_bf16_rule rule, const node *n, uint32_t slot) {
  cpu_recording none = {0};
  cpu_recorder r = {.b = b, .out = &none, .fast = true};
  const bool yes = rule(&r, n, slot) && !r.failed;
  free(r.places);
  return yes;
}

clave_status cpu_record(backend *b, const node *n, bool fast, recording **out) {
  *out = NULL;
  ir_op op = n->instruction->op_type;
  if (op >= IR_OP_COUNT || !cpu_table[op])
    return UNSUPPORTED("op %d never runs on a backend", (int)op);
  cpu_recording *made = calloc(1, sizeof *made);
  if (!made) return status_no_memory();
  cpu_recorder r = {.b = b, .out = made, .fast = fast, .choices = n->choices};
  r.n_threads = choose_threads(&r, n);
  clave_status st = cpu_table[op](&r, n);
  if (!st && !r.has_epilogue) st = cpu_epilogue(&r, n);
  free(r.places);
  if (st) {
    cpu_recording_destroy(b, &made->base);
    return st;
  }
  *out = &made->base;
  return NULL;
}
