/* Reads a method's nodes and slots through the public API, and measures how much of them is alive
 * at once. */
#include "cli/graph.h"

#include <stdlib.h>
#include <string.h>

static char *copy_string(const char *s) {
  size_t n = strlen(s ? s : "") + 1;
  char *copy = malloc(n);
  if (copy) memcpy(copy, s ? s : "", n);
  return copy;
}

static void *allocate(size_t count, size_t size) { return calloc(count ? count : 1, size); }

static uint32_t limit_operands(uint32_t n) {
  return n < CLAVE_MAX_OPERANDS ? n : CLAVE_MAX_OPERANDS;
}

static int read_node(const model *m, uint32_t index, graph_node *n) {
  clave_node_info info = {.size = sizeof info};
  TRY_STATUS(clave_program_node(m->program, m->method.name, index, &info));
  n->op = copy_string(info.op);
  n->name = copy_string(info.name);
  n->detail = copy_string(info.detail);
  n->n_reads = limit_operands(info.n_reads);
  n->n_writes = limit_operands(info.n_writes);
  n->slots = allocate(n->n_reads + n->n_writes, sizeof *n->slots);
  if (!n->op || !n->name || !n->detail || !n->slots) return fail_memory();
  memcpy(n->slots, info.reads, n->n_reads * sizeof *n->slots);
  memcpy(n->slots + n->n_reads, info.writes, n->n_writes * sizeof *n->slots);
  return EXIT_GOOD;
}

static void mark_slots(graph *g, const graph_node *n) {
  for (uint32_t k = 0; k < n->n_reads + n->n_writes; k++) {
    g->is_used[n->slots[k]] = true;
    if (k < n->n_reads) g->is_read[n->slots[k]] = true;
  }
}

int read_graph(const model *m, graph *g) {
  clave_program_info program = {.size = sizeof program};
  const char *method = m->method.name;
  TRY_STATUS(clave_program_get_info(m->program, &program));
  g->method = method;
  g->nodes = allocate(m->method.n_nodes, sizeof *g->nodes);
  g->slots = allocate(program.n_slots, sizeof *g->slots);
  g->inputs = allocate(m->method.n_inputs, sizeof *g->inputs);
  g->outputs = allocate(m->method.n_outputs, sizeof *g->outputs);
  g->is_read = allocate(program.n_slots, sizeof *g->is_read);
  g->is_used = allocate(program.n_slots, sizeof *g->is_used);
  if (!g->nodes || !g->slots || !g->inputs || !g->outputs || !g->is_read || !g->is_used)
    return fail_memory();
  g->n_slots = program.n_slots;
  g->n_inputs = m->method.n_inputs;
  g->n_outputs = m->method.n_outputs;
  g->n_nodes = m->method.n_nodes;
  for (uint32_t i = 0; i < g->n_slots; i++) {
    g->slots[i].size = sizeof g->slots[i];
    TRY_STATUS(clave_program_slot(m->program, i, &g->slots[i]));
  }
  for (uint32_t i = 0; i < g->n_inputs; i++) {
    g->inputs[i].size = sizeof g->inputs[i];
    TRY_STATUS(clave_program_input(m->program, method, i, &g->inputs[i]));
  }
  for (uint32_t i = 0; i < g->n_outputs; i++) {
    g->outputs[i].size = sizeof g->outputs[i];
    TRY_STATUS(clave_program_output(m->program, method, i, &g->outputs[i]));
  }
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    TRY_EXIT(read_node(m, i, &g->nodes[i]));
    g->nodes[i].into = i;
    mark_slots(g, &g->nodes[i]);
  }
  return EXIT_GOOD;
}

static int read_places(const clave_placement *places, graph *g) {
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    clave_placement_info place = {.size = sizeof place};
    graph_node *n = &g->nodes[i];
    TRY_STATUS(clave_placement_get(places, g->method, i, &place));
    free(n->where);
    free(n->reason);
    n->where = copy_string(place.where);
    n->reason = place.reason ? copy_string(place.reason) : NULL;
    if (!n->where || (place.reason && !n->reason)) return fail_memory();
    n->is_view = strcmp(n->where, "view") == 0;
    n->into = place.into < g->n_nodes ? (uint32_t)place.into : i;
  }
  return EXIT_GOOD;
}

int read_placement(const model *m, graph *g) {
  clave_session_options options = {.size = sizeof options,
                                   .allow_custom_kernels = m->allow_custom_kernels};
  clave_placement *places;
  TRY_STATUS(clave_program_supported(m->program, m->device, &options, &places));
  int result = read_places(places, g);
  clave_placement_destroy(places);
  return result;
}

void find_views(const model *m, graph *g) {
  clave_session_options unfused = {.size = sizeof unfused, .unfused = true};
  clave_device *cpu;
  clave_placement *places = NULL;
  clave_status st = clave_device_open("cpu", NULL, &cpu);
  if (!st) st = clave_program_supported(m->program, cpu, &unfused, &places);
  for (uint32_t i = 0; !st && i < g->n_nodes; i++) {
    clave_placement_info place = {.size = sizeof place};
    st = clave_placement_get(places, g->method, i, &place);
    g->nodes[i].is_view = !st && strcmp(place.where, "view") == 0;
  }
  clave_placement_destroy(places);
  clave_device_destroy(cpu);
  clave_status_free(st);
}

void free_graph(graph *g) {
  for (uint32_t i = 0; g->nodes && i < g->n_nodes; i++) {
    free(g->nodes[i].op);
    free(g->nodes[i].name);
    free(g->nodes[i].detail);
    free(g->nodes[i].where);
    free(g->nodes[i].reason);
    free(g->nodes[i].note);
    free(g->nodes[i].slots);
  }
  free(g->nodes);
  free(g->slots);
  free(g->is_read);
  free(g->is_used);
  free(g->inputs);
  free(g->outputs);
  *g = (graph){0};
}

const uint32_t *node_writes(const graph_node *n) { return n->slots + n->n_reads; }

bool is_constant(const graph *g, uint32_t slot) {
  return slot < g->n_slots && g->slots[slot].kind == CLAVE_SLOT_CONSTANT;
}

/* ---------------------------------------------------------------- memory */

/* The most bytes of a slot; UINT64_MAX: no bound. */
static uint64_t bound_bytes(const clave_tensor_info *info) {
  uint64_t bytes = clave_dtype_size(info->dtype);
  for (int i = 0; i < info->rank; i++) {
    bool dynamic = info->dims[i] == CLAVE_DYNAMIC;
    int64_t dim = dynamic ? info->max_dims[i] : info->dims[i];
    if (dynamic && dim == INT64_MAX) return UINT64_MAX;
    if (__builtin_mul_overflow(bytes, (uint64_t)dim, &bytes)) return UINT64_MAX;
  }
  return bytes;
}

/* One per slot: the slot whose storage it shares (itself, if none), and the last node that touches
 * that. */
typedef struct lifetime {
  uint32_t owner, last;
} lifetime;

static void find_lifetimes(const graph *g, lifetime *lives) {
  for (uint32_t i = 0; i < g->n_slots; i++) lives[i] = (lifetime){.owner = i};
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    const graph_node *n = &g->nodes[i];
    if (n->is_view && n->n_reads && n->n_writes)
      lives[*node_writes(n)].owner = lives[n->slots[0]].owner;
    for (uint32_t k = 0; k < n->n_reads + n->n_writes; k++)
      lives[lives[n->slots[k]].owner].last = i;
  }
  for (uint32_t i = 0; i < g->n_outputs; i++) {
    if (!g->outputs[i].is_scalar) lives[lives[g->outputs[i].slot].owner].last = g->n_nodes;
  }
}

static bool is_planned(const graph *g, const lifetime *lives, uint32_t slot) {
  clave_slot_kind kind = g->slots[slot].kind;
  return lives[slot].owner == slot && (kind == CLAVE_SLOT_TEMPORARY || kind == CLAVE_SLOT_OUTPUT);
}

static uint64_t find_peak(const graph *g, const lifetime *lives, uint64_t *freed_after) {
  uint64_t alive = 0, peak = 0;
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    const graph_node *n = &g->nodes[i];
    for (uint32_t k = 0; k < n->n_writes; k++) {
      uint32_t slot = node_writes(n)[k];
      if (!is_planned(g, lives, slot)) continue;
      uint64_t bytes = bound_bytes(&g->slots[slot]);
      if (bytes == UINT64_MAX || __builtin_add_overflow(alive, bytes, &alive)) return UINT64_MAX;
      freed_after[lives[slot].last] += bytes;
    }
    if (alive > peak) peak = alive;
    alive -= freed_after[i];
  }
  return peak;
}

const char *find_unbounded_size(const graph *g) {
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    const graph_node *n = &g->nodes[i];
    for (uint32_t k = 0; k < n->n_writes; k++) {
      const clave_tensor_info *t = &g->slots[node_writes(n)[k]];
      for (int d = 0; d < t->rank; d++)
        if (t->dims[d] == CLAVE_DYNAMIC && t->max_dims[d] == INT64_MAX)
          return t->dim_names[d] ? t->dim_names[d] : n->name;
    }
  }
  return NULL;
}

bool measure_live_peak(const graph *g, uint64_t *bytes) {
  lifetime *lives = allocate(g->n_slots, sizeof *lives);
  uint64_t *freed_after = allocate((size_t)g->n_nodes + 1, sizeof *freed_after);
  bool good = lives && freed_after;
  if (good) {
    find_lifetimes(g, lives);
    *bytes = find_peak(g, lives, freed_after);
  }
  free(lives);
  free(freed_after);
  return good;
}
