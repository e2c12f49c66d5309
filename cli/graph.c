/* Reads a method's nodes and slots through the public API, and measures how many bytes are alive at
 * the same time. */
#include "cli/graph.h"

#include <stdlib.h>
#include <string.h>

static char *copy_string(const char *text) {
  size_t n = strlen(text ? text : "") + 1;
  char *copy = malloc(n);
  if (copy) memcpy(copy, text ? text : "", n);
  return copy;
}

static void *cli_graph_allocate(size_t count, size_t size) {
  return calloc(count ? count : 1, size);
}

static uint32_t limit_operands(uint32_t n) {
  return n < CLAVE_MAX_OPERANDS ? n : CLAVE_MAX_OPERANDS;
}

static int cli_graph_read_node(const model *model, uint32_t index, graph_node *node) {
  clave_node_info info = {.size = sizeof info};
  TRY_STATUS(clave_program_node(model->program, model->method.name, index, &info));
  node->op = copy_string(info.op);
  node->name = copy_string(info.name);
  node->detail = copy_string(info.detail);
  node->n_reads = limit_operands(info.n_reads);
  node->n_writes = limit_operands(info.n_writes);
  node->slots = cli_graph_allocate(node->n_reads + node->n_writes, sizeof *node->slots);
  if (!node->op || !node->name || !node->detail || !node->slots) return fail_memory();
  memcpy(node->slots, info.reads, node->n_reads * sizeof *node->slots);
  memcpy(node->slots + node->n_reads, info.writes, node->n_writes * sizeof *node->slots);
  return EXIT_GOOD;
}

static void mark_slots(graph *graph, const graph_node *node) {
  for (uint32_t k = 0; k < node->n_reads + node->n_writes; k++) {
    graph->is_used[node->slots[k]] = true;
    if (k < node->n_reads) graph->is_read[node->slots[k]] = true;
  }
}

int read_graph(const model *model, graph *graph) {
  clave_program_info program = {.size = sizeof program};
  const char *method = model->method.name;
  TRY_STATUS(clave_program_get_info(model->program, &program));
  graph->method = method;
  graph->nodes = cli_graph_allocate(model->method.n_nodes, sizeof *graph->nodes);
  graph->slots = cli_graph_allocate(program.n_slots, sizeof *graph->slots);
  graph->inputs = cli_graph_allocate(model->method.n_inputs, sizeof *graph->inputs);
  graph->outputs = cli_graph_allocate(model->method.n_outputs, sizeof *graph->outputs);
  graph->is_read = cli_graph_allocate(program.n_slots, sizeof *graph->is_read);
  graph->is_used = cli_graph_allocate(program.n_slots, sizeof *graph->is_used);
  if (!graph->nodes || !graph->slots || !graph->inputs || !graph->outputs || !graph->is_read ||
      !graph->is_used)
    return fail_memory();
  graph->n_slots = program.n_slots;
  graph->n_inputs = model->method.n_inputs;
  graph->n_outputs = model->method.n_outputs;
  graph->n_nodes = model->method.n_nodes;
  for (uint32_t i = 0; i < graph->n_slots; i++) {
    graph->slots[i].size = sizeof graph->slots[i];
    TRY_STATUS(clave_program_slot(model->program, i, &graph->slots[i]));
  }
  for (uint32_t i = 0; i < graph->n_inputs; i++) {
    graph->inputs[i].size = sizeof graph->inputs[i];
    TRY_STATUS(clave_program_input(model->program, method, i, &graph->inputs[i]));
  }
  for (uint32_t i = 0; i < graph->n_outputs; i++) {
    graph->outputs[i].size = sizeof graph->outputs[i];
    TRY_STATUS(clave_program_output(model->program, method, i, &graph->outputs[i]));
  }
  for (uint32_t i = 0; i < graph->n_nodes; i++) {
    TRY_EXIT(cli_graph_read_node(model, i, &graph->nodes[i]));
    graph->nodes[i].into = i;
    mark_slots(graph, &graph->nodes[i]);
  }
  return EXIT_GOOD;
}

static int read_places(const clave_placement *places, graph *graph) {
  for (uint32_t i = 0; i < graph->n_nodes; i++) {
    clave_placement_info place = {.size = sizeof place};
    graph_node *node = &graph->nodes[i];
    TRY_STATUS(clave_placement_get(places, graph->method, i, &place));
    free(node->where);
    free(node->reason);
    node->where = copy_string(place.where);
    node->reason = place.reason ? copy_string(place.reason) : NULL;
    if (!node->where || (place.reason && !node->reason)) return fail_memory();
    node->is_view = strcmp(node->where, "view") == 0;
    node->into = place.into < graph->n_nodes ? (uint32_t)place.into : i;
  }
  return EXIT_GOOD;
}

int read_placement(const model *model, graph *graph) {
  clave_session_options options = {.size = sizeof options,
                                   .allow_custom_kernels = model->allow_custom_kernels};
  clave_placement *places;
  TRY_STATUS(clave_program_supported(model->program, model->device, &options, &places));
  int result = read_places(places, graph);
  clave_placement_destroy(places);
  return result;
}

void find_views(const model *model, graph *graph) {
  clave_session_options unfused = {.size = sizeof unfused, .unfused = true};
  clave_device *cpu;
  clave_placement *places = NULL;
  clave_status st = clave_device_open("cpu", NULL, &cpu);
  if (!st) st = clave_program_supported(model->program, cpu, &unfused, &places);
  for (uint32_t i = 0; !st && i < graph->n_nodes; i++) {
    clave_placement_info place = {.size = sizeof place};
    st = clave_placement_get(places, graph->method, i, &place);
    graph->nodes[i].is_view = !st && strcmp(place.where, "view") == 0;
  }
  clave_placement_destroy(places);
  clave_device_destroy(cpu);
  clave_status_free(st);
}

void free_graph(graph *method_graph) {
  for (uint32_t i = 0; method_graph->nodes && i < method_graph->n_nodes; i++) {
    free(method_graph->nodes[i].op);
    free(method_graph->nodes[i].name);
    free(method_graph->nodes[i].detail);
    free(method_graph->nodes[i].where);
    free(method_graph->nodes[i].reason);
    free(method_graph->nodes[i].note);
    free(method_graph->nodes[i].slots);
  }
  free(method_graph->nodes);
  free(method_graph->slots);
  free(method_graph->is_read);
  free(method_graph->is_used);
  free(method_graph->inputs);
  free(method_graph->outputs);
  *method_graph = (graph){0};
}

const uint32_t *node_writes(const graph_node *node) { return node->slots + node->n_reads; }

bool is_constant(const graph *graph, uint32_t slot) {
  return slot < graph->n_slots && graph->slots[slot].kind == CLAVE_SLOT_CONSTANT;
}

/* ---------------------------------------------------------------- memory */

/* Returns the largest size of a slot in bytes; UINT64_MAX: unbounded. */
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

/* For each slot: the slot whose storage it shares (itself if none), and the last node that uses
 * this storage. */
typedef struct lifetime {
  uint32_t owner, last;
} lifetime;

static void find_lifetimes(const graph *graph, lifetime *lives) {
  for (uint32_t i = 0; i < graph->n_slots; i++) lives[i] = (lifetime){.owner = i};
  for (uint32_t i = 0; i < graph->n_nodes; i++) {
    const graph_node *node = &graph->nodes[i];
    if (node->is_view && node->n_reads && node->n_writes)
      lives[*node_writes(node)].owner = lives[node->slots[0]].owner;
    for (uint32_t k = 0; k < node->n_reads + node->n_writes; k++)
      lives[lives[node->slots[k]].owner].last = i;
  }
  for (uint32_t i = 0; i < graph->n_outputs; i++) {
    if (!graph->outputs[i].is_scalar)
      lives[lives[graph->outputs[i].slot].owner].last = graph->n_nodes;
  }
}

static bool is_planned(const graph *graph, const lifetime *lives, uint32_t slot) {
  clave_slot_kind kind = graph->slots[slot].kind;
  return lives[slot].owner == slot && (kind == CLAVE_SLOT_TEMPORARY || kind == CLAVE_SLOT_OUTPUT);
}

static uint64_t cli_graph_find_peak(const graph *graph, const lifetime *lives,
                                    uint64_t *freed_after) {
  uint64_t alive = 0, peak = 0;
  for (uint32_t i = 0; i < graph->n_nodes; i++) {
    const graph_node *node = &graph->nodes[i];
    for (uint32_t k = 0; k < node->n_writes; k++) {
      uint32_t slot = node_writes(node)[k];
      if (!is_planned(graph, lives, slot)) continue;
      uint64_t bytes = bound_bytes(&graph->slots[slot]);
      if (bytes == UINT64_MAX || __builtin_add_overflow(alive, bytes, &alive)) return UINT64_MAX;
      freed_after[lives[slot].last] += bytes;
    }
    if (alive > peak) peak = alive;
    alive -= freed_after[i];
  }
  return peak;
}

const char *find_unbounded_size(const graph *graph) {
  for (uint32_t i = 0; i < graph->n_nodes; i++) {
    const graph_node *node = &graph->nodes[i];
    for (uint32_t k = 0; k < node->n_writes; k++) {
      const clave_tensor_info *info = &graph->slots[node_writes(node)[k]];
      for (int d = 0; d < info->rank; d++)
        if (info->dims[d] == CLAVE_DYNAMIC && info->max_dims[d] == INT64_MAX)
          return info->dim_names[d] ? info->dim_names[d] : node->name;
    }
  }
  return NULL;
}

bool measure_live_peak(const graph *graph, uint64_t *bytes) {
  lifetime *lives = cli_graph_allocate(graph->n_slots, sizeof *lives);
  uint64_t *freed_after = cli_graph_allocate((size_t)graph->n_nodes + 1, sizeof *freed_after);
  bool good = lives && freed_after;
  if (good) {
    find_lifetimes(graph, lives);
    *bytes = cli_graph_find_peak(graph, lives, freed_after);
  }
  free(lives);
  free(freed_after);
  return good;
}
