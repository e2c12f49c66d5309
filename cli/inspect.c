/* clave inspect: what a program or a .safetensors file holds. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "clave_files.h"
#include "cli/carried.h"
#include "cli/language.h"
#include "cli/picture.h"
#include "cli/tensor_json.h"

typedef struct inspect_arguments {
  model_arguments model;
  const char *profile;
  text_list dims;
  bool json, dot, svg, html, placement;
} inspect_arguments;

static const flag inspect_flags[] = {
    {"FILE", FLAG_OPERAND, offsetof(inspect_arguments, model.program), NULL,
     "a .clv or .json program, or a .safetensors file", 0, 0},
    {"--consts", FLAG_PATH, offsetof(inspect_arguments, model.consts), "FILE",
     "constants of a .json program (default: consts.safetensors beside it)", 0, 0},
    {"--json", FLAG_SWITCH, offsetof(inspect_arguments, json), NULL, "everything, for programs", 0,
     0},
    {"--dot", FLAG_SWITCH, offsetof(inspect_arguments, dot), NULL, "the graph for graphviz", 0, 0},
    {"--svg", FLAG_SWITCH, offsetof(inspect_arguments, svg), NULL, "the graph as a drawing", 0, 0},
    {"--html", FLAG_SWITCH, offsetof(inspect_arguments, html), NULL,
     "a page: the drawing, what is fused on the device, and the memory of a run", 0, 0},
    {"--profile", FLAG_PATH, offsetof(inspect_arguments, profile), "T.json",
     "with --svg or --html: the time of each node, as clave run --profile wrote it", 0, 0},
    {"--placement", FLAG_SWITCH, offsetof(inspect_arguments, placement), NULL,
     "where each op runs, and why; with --svg: what is fused", 0, 0},
    {"--dim", FLAG_LIST, offsetof(inspect_arguments, dims), "NAME=N",
     "with --html: an open size of the run whose memory is shown (default: the smallest legal "
     "one); repeatable",
     0, 0},
    METHOD_FLAG(inspect_arguments),
    DEVICE_FLAGS(inspect_arguments),
};

enum { LISTED_CONSTANTS = 12, LISTED_NODES = 64 };

/* ---------------------------------------------------------------- tensor files */

static void list_tensors(const clave_tensors *file, page *out) {
  columns table = {.n_columns = 3, .right = {[2] = true}};
  page cell = {0};
  uint32_t count = clave_tensors_count(file);
  uint64_t total = 0;
  for (uint32_t i = 0; i < count; i++) {
    const char *name;
    clave_tensor t;
    clave_tensors_get(file, i, &name, &t);
    cell.size = 0;
    page_visible(&cell, name);
    columns_cell(&table, "%s", cell.size ? cell.data : "\"\"");
    cell.size = 0;
    page_shape(&cell, &t);
    columns_cell(&table, "%s", cell.data ? cell.data : "");
    uint64_t bytes = clave_dtype_size(t.dtype);
    for (int k = 0; k < t.rank; k++) bytes *= (uint64_t)t.dims[k];
    total += bytes;
    cell.size = 0;
    page_size(&cell, bytes);
    columns_cell(&table, "%s", cell.data ? cell.data : "");
  }
  columns_write(&table, 0, out);
  text_printf(out, "%" PRIu32 " tensor%s, ", count, count == 1 ? "" : "s");
  page_size(out, total);
  text_puts(out, "\n");
  out->failed |= cell.failed;
  text_free(&cell);
}

static void list_tensors_json(const clave_tensors *file, page *out) {
  json_writer j = {.out = out};
  emit_array(&j, NULL);
  for (uint32_t i = 0; i < clave_tensors_count(file); i++) {
    const char *name;
    clave_tensor t;
    clave_tensors_get(file, i, &name, &t);
    emit_object(&j, NULL);
    emit_string(&j, "name", name);
    emit_string(&j, "dtype", clave_dtype_name(t.dtype));
    emit_list(&j, "shape");
    for (int k = 0; k < t.rank; k++) emit_integer(&j, NULL, t.dims[k]);
    emit_end_array(&j);
    emit_end_object(&j);
  }
  emit_end_array(&j);
}

static int inspect_tensors(const inspect_arguments *a, page *out) {
  clave_tensors *file;
  if (a->dot || a->svg || a->placement || a->model.method) {
    return fail("%s: a tensor file has no graph", a->model.program);
  }
  TRY_STATUS(clave_tensors_load(a->model.program, &file));
  (a->json ? list_tensors_json : list_tensors)(file, out);
  clave_tensors_destroy(file);
  return EXIT_GOOD;
}

/* ---------------------------------------------------------------- the histogram of ops */

typedef struct op_count {
  const char *op;
  uint32_t count;
} op_count;

static int compare_names(const void *a, const void *b) {
  return strcmp(((const op_count *)a)->op, ((const op_count *)b)->op);
}

static int compare_counts(const void *a, const void *b) {
  const op_count *x = a, *y = b;
  if (x->count != y->count) return x->count < y->count ? 1 : -1;
  return strcmp(x->op, y->op);
}

/* One entry per op, most frequent first; owned by the caller, NULL: out of memory. */
static op_count *count_ops(const graph *g, uint32_t *n) {
  op_count *list = calloc((size_t)g->n_nodes + 1, sizeof *list);
  uint32_t kept = 0;
  if (!list) return NULL;
  for (uint32_t i = 0; i < g->n_nodes; i++) list[i] = (op_count){g->nodes[i].op, 1};
  qsort(list, g->n_nodes, sizeof *list, compare_names);
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    if (kept && strcmp(list[kept - 1].op, list[i].op) == 0) {
      list[kept - 1].count++;
    } else {
      list[kept++] = list[i];
    }
  }
  qsort(list, kept, sizeof *list, compare_counts);
  *n = kept;
  return list;
}

/* ---------------------------------------------------------------- JSON */

static void write_slots_json(json_writer *j, const char *key, const graph *g, const uint32_t *slots,
                             uint32_t count) {
  emit_list(j, key);
  for (uint32_t i = 0; i < count; i++) {
    emit_object(j, NULL);
    emit_integer(j, "slot", slots[i]);
    emit_info(j, &g->slots[slots[i]]);
    emit_end_object(j);
  }
  emit_end_array(j);
}

static void write_node_json(json_writer *j, const graph *g, const graph_node *n) {
  emit_object(j, NULL);
  emit_string(j, "op", n->op);
  emit_string(j, "name", n->name);
  emit_string(j, "detail", n->detail);
  if (n->where) emit_string(j, "where", n->where);
  if (n->where) emit_string(j, "reason", n->reason);
  write_slots_json(j, "reads", g, n->slots, n->n_reads);
  write_slots_json(j, "writes", g, node_writes(n), n->n_writes);
  emit_end_object(j);
}

static void write_arguments_json(json_writer *j, const char *key, const clave_tensor_info *list,
                                 uint32_t count) {
  emit_array(j, key);
  for (uint32_t i = 0; i < count; i++) {
    emit_object(j, NULL);
    emit_info(j, &list[i]);
    emit_end_object(j);
  }
  emit_end_array(j);
}

static int write_method_json(json_writer *j, const graph *g) {
  uint32_t n_ops = 0;
  uint64_t peak = 0;
  op_count *ops = count_ops(g, &n_ops);
  if (!ops || !measure_live_peak(g, &peak)) {
    free(ops);
    return fail_memory();
  }
  emit_object(j, NULL);
  emit_string(j, "name", g->method);
  write_arguments_json(j, "inputs", g->inputs, g->n_inputs);
  write_arguments_json(j, "outputs", g->outputs, g->n_outputs);
  emit_object(j, "ops");
  for (uint32_t i = 0; i < n_ops; i++) emit_integer(j, ops[i].op, ops[i].count);
  emit_end_object(j);
  if (peak == UINT64_MAX) {
    emit_string(j, "peak_bytes", NULL);
  } else {
    emit_size(j, "peak_bytes", peak);
  }
  emit_array(j, "nodes");
  for (uint32_t i = 0; i < g->n_nodes; i++) write_node_json(j, g, &g->nodes[i]);
  emit_end_array(j);
  emit_end_object(j);
  free(ops);
  return EXIT_GOOD;
}

static void write_kind_json(json_writer *j, const char *key, const graph *g, clave_slot_kind kind) {
  emit_array(j, key);
  for (uint32_t i = 0; i < g->n_slots; i++) {
    if (g->slots[i].kind != kind) continue;
    emit_object(j, NULL);
    emit_info(j, &g->slots[i]);
    emit_end_object(j);
  }
  emit_end_array(j);
}

/* ---------------------------------------------------------------- page */

static void write_arguments(const char *title, const clave_tensor_info *list, uint32_t count,
                            columns *table) {
  page cell = {0};
  for (uint32_t i = 0; i < count; i++) {
    columns_cell(table, "%s", i ? "" : title);
    cell.size = 0;
    page_visible(&cell, list[i].name);
    columns_cell(table, "%s", cell.data ? cell.data : "");
    cell.size = 0;
    page_info(&cell, &list[i]);
    for (int k = 0; k < list[i].rank; k++) {
      if (list[i].dims[k] != CLAVE_DYNAMIC) continue;
      const char *name = list[i].dim_names[k];
      text_printf(&cell, "  %s %" PRId64, name && *name ? name : "?", list[i].min_dims[k]);
      if (list[i].max_dims[k] == INT64_MAX) {
        text_puts(&cell, " and more");
      } else {
        text_printf(&cell, " to %" PRId64, list[i].max_dims[k]);
      }
    }
    columns_cell(table, "%s", cell.data ? cell.data : "");
  }
  table->cells.failed |= cell.failed;
  text_free(&cell);
}

static void write_nodes(const graph *g, page *out) {
  columns table = {.n_columns = 5, .right = {[0] = true}};
  page cell = {0};
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    const graph_node *n = &g->nodes[i];
    columns_cell(&table, "%" PRIu32, i);
    columns_cell(&table, "%s", n->op);
    cell.size = 0;
    page_visible(&cell, n->name);
    columns_cell(&table, "%s", cell.data ? cell.data : "");
    cell.size = 0;
    text_puts(&cell, "");
    for (uint32_t k = 0; k < n->n_writes; k++) {
      if (k) text_puts(&cell, ", ");
      page_info(&cell, &g->slots[node_writes(n)[k]]);
    }
    columns_cell(&table, "%s", cell.data ? cell.data : "");
    cell.size = 0;
    page_visible(&cell, n->detail);
    columns_cell(&table, "%s", cell.size ? cell.data : "");
  }
  columns_write(&table, 2, out);
  out->failed |= cell.failed;
  text_free(&cell);
}

static void write_ops(const op_count *ops, uint32_t n_ops, page *out) {
  size_t line = out->size;
  text_puts(out, "ops      ");
  for (uint32_t i = 0; i < n_ops; i++) {
    if (out->size - line > 90) {
      text_puts(out, "\n         ");
      line = out->size - 9;
    }
    text_printf(out, "%s %" PRIu32 "%s", ops[i].op, ops[i].count, i + 1 < n_ops ? ", " : "");
  }
  text_puts(out, "\n");
}

static int write_method(const graph *g, page *out) {
  columns table = {.n_columns = 3};
  uint32_t n_ops = 0;
  uint64_t peak = 0;
  op_count *ops = count_ops(g, &n_ops);
  if (!ops || !measure_live_peak(g, &peak)) {
    free(ops);
    return fail_memory();
  }
  text_printf(out, "\nmethod   %s, %" PRIu32 " nodes\n", g->method, g->n_nodes);
  write_arguments("inputs ", g->inputs, g->n_inputs, &table);
  write_arguments("outputs", g->outputs, g->n_outputs, &table);
  columns_write(&table, 0, out);
  write_ops(ops, n_ops, out);
  text_puts(out, "memory   ");
  if (peak == UINT64_MAX) {
    const char *name = find_unbounded_size(g);
    text_puts(out, "temporaries without a bound: ");
    page_visible(out, name ? name : "their sizes together");
    text_puts(out, name ? " has none" : " have none");
  } else {
    text_puts(out, "temporaries and outputs at most ");
    page_size(out, peak);
  }
  text_puts(out, "\n");
  if (g->n_nodes <= LISTED_NODES) {
    write_nodes(g, out);
  } else {
    text_printf(out, "         --json lists the %" PRIu32 " nodes\n", g->n_nodes);
  }
  free(ops);
  return EXIT_GOOD;
}

/* What the program has packed for one kind of device, and where the forms of it begin. */
typedef struct packed_forms {
  const char *device;
  uint32_t count;
  uint64_t bytes;
} packed_forms;

/* Of the kind of form `first`; .count 0: it was counted with one before. */
static int count_forms(const clave_program *p, uint32_t first, uint32_t n, packed_forms *out) {
  for (uint32_t i = 0; i < n; i++) {
    clave_form_info at = {.size = sizeof at}, f = {.size = sizeof f};
    TRY_STATUS(clave_program_form(p, first, &at));
    TRY_STATUS(clave_program_form(p, i, &f));
    if (i == 0) *out = (packed_forms){.device = at.device};
    if (strcmp(f.device, at.device) != 0) continue;
    if (i < first) {
      out->count = 0;
      return EXIT_GOOD;
    }
    out->count++;
    out->bytes += f.bytes;
  }
  return EXIT_GOOD;
}

/* j NULL: as a table. */
static int write_forms(const model *m, json_writer *j, page *out) {
  const uint32_t n = clave_program_count_forms(m->program);
  if (j) emit_array(j, "packed");
  for (uint32_t i = 0; i < n; i++) {
    packed_forms of = {0};
    TRY_EXIT(count_forms(m->program, i, n, &of));
    if (!of.count) continue;
    if (!j) {
      text_printf(out, "packed   %" PRIu32 " constants, ", of.count);
      page_size(out, of.bytes);
      text_puts(out, ", for ");
      page_visible(out, of.device);
      text_puts(out, "\n");
      continue;
    }
    emit_object(j, NULL);
    emit_string(j, "device", of.device);
    emit_size(j, "constants", of.count);
    emit_size(j, "bytes", of.bytes);
    emit_end_object(j);
  }
  if (j) emit_end_array(j);
  return EXIT_GOOD;
}

static void write_program(const inspect_arguments *a, const clave_program_info *info,
                          const graph *g, page *out) {
  columns table = {.n_columns = 3};
  uint32_t listed = 0;
  text_puts(out, "program  ");
  page_visible(out, a->model.program);
  text_printf(out, "\nversion  %" PRIu32 ", by ", info->version);
  page_visible(out, info->producer && *info->producer ? info->producer : "an unnamed producer");
  text_puts(out, "\nmemory   constants ");
  page_size(out, info->constant_bytes);
  text_puts(out, ", state ");
  page_size(out, info->state_bytes);
  text_puts(out, "\n");
  for (uint32_t i = 0; i < g->n_slots && listed < LISTED_CONSTANTS; i++) {
    if (g->slots[i].kind != CLAVE_SLOT_CONSTANT) continue;
    write_arguments(listed++ ? "" : "consts   ", &g->slots[i], 1, &table);
  }
  columns_write(&table, 0, out);
  if (info->n_constants > listed)
    text_printf(out, "         and %" PRIu32 " more (--json)\n", info->n_constants - listed);
  for (uint32_t i = 0, first = 1; i < g->n_slots; i++) {
    if (g->slots[i].kind != CLAVE_SLOT_STATE) continue;
    write_arguments(first ? "state    " : "", &g->slots[i], 1, &table);
    first = 0;
  }
  columns_write(&table, 0, out);
}

static void write_placement(const model *m, const graph *g, page *out) {
  columns table = {.n_columns = 5, .right = {[0] = true}};
  page cell = {0};
  text_puts(out, "device   ");
  page_device(out, m);
  text_puts(out, "\n");
  if (m->device_info.n_tuned)
    text_printf(out, "tuned    %" PRIu32 " rows (clave tune --list)\n", m->device_info.n_tuned);
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    const graph_node *n = &g->nodes[i];
    columns_cell(&table, "%" PRIu32, i);
    columns_cell(&table, "%s", n->where ? n->where : "");
    columns_cell(&table, "%s", n->op);
    cell.size = 0;
    page_visible(&cell, n->name);
    columns_cell(&table, "%s", cell.size ? cell.data : "");
    columns_cell(&table, "%s", n->reason ? n->reason : "");
  }
  columns_write(&table, 0, out);
  out->failed |= cell.failed;
  text_free(&cell);
}

/* ---------------------------------------------------------------- the command */

static int inspect_method(const inspect_arguments *a, model *m, json_writer *j, page *out) {
  graph g = {0};
  int result = read_graph(m, &g);
  if (!result && a->placement) result = read_placement(m, &g);
  if (!result && !a->placement) find_views(m, &g);
  if (!result) result = a->json ? write_method_json(j, &g) : write_method(&g, out);
  free_graph(&g);
  return result;
}

/* Every method, or the one asked for. */
static int inspect_methods(const inspect_arguments *a, model *m, json_writer *j, page *out) {
  clave_program_info info = {.size = sizeof info};
  if (a->model.method) return inspect_method(a, m, j, out);
  TRY_STATUS(clave_program_get_info(m->program, &info));
  for (uint32_t i = 0; i < info.n_methods; i++) {
    TRY_STATUS(clave_program_method(m->program, i, &m->method));
    TRY_EXIT(inspect_method(a, m, j, out));
  }
  return EXIT_GOOD;
}

static int inspect_all(const inspect_arguments *a, model *m, const graph *g, page *out) {
  json_writer j = {.out = out};
  clave_program_info info = {.size = sizeof info};
  TRY_STATUS(clave_program_get_info(m->program, &info));
  if (!a->json) {
    TRY_EXIT(write_language_model(m, g, NULL, out));
    write_program(a, &info, g, out);
    TRY_EXIT(write_forms(m, NULL, out));
    TRY_EXIT(write_carried(m->program, NULL, out));
    return inspect_methods(a, m, NULL, out);
  }
  emit_object(&j, NULL);
  emit_string(&j, "program", a->model.program);
  emit_size(&j, "version", info.version);
  emit_string(&j, "producer", info.producer);
  emit_size(&j, "constant_bytes", info.constant_bytes);
  emit_size(&j, "state_bytes", info.state_bytes);
  write_kind_json(&j, "constants", g, CLAVE_SLOT_CONSTANT);
  write_kind_json(&j, "state", g, CLAVE_SLOT_STATE);
  TRY_EXIT(write_forms(m, &j, out));
  TRY_EXIT(write_carried(m->program, &j, out));
  emit_array(&j, "methods");
  TRY_EXIT(inspect_methods(a, m, &j, out));
  emit_end_array(&j);
  TRY_EXIT(write_language_model(m, g, &j, out));
  emit_end_object(&j);
  return EXIT_GOOD;
}

static int draw(const inspect_arguments *a, model *m, graph *g, page *out) {
  node_times times = {0};
  int result = a->profile ? read_times(a->profile, g, &times) : EXIT_GOOD;
  if (!result && a->profile) result = show_times(&times, g);
  if (!result)
    result = a->html
                 ? write_picture(m, g, a->model.program, a->profile ? &times : NULL, &a->dims, out)
                 : write_svg(g, NULL, out);
  free_times(&times);
  return result;
}

static int inspect_graph(const inspect_arguments *a, model *m, graph *g, page *out) {
  TRY_EXIT(open_program(&a->model, m));
  TRY_EXIT(read_graph(m, g));
  if (a->placement || a->html) {
    TRY_EXIT(open_device(&a->model, m));
    TRY_EXIT(read_placement(m, g));
  }
  if (a->svg || a->html) return draw(a, m, g, out);
  if (a->dot) {
    write_dot(g, out);
  } else if (a->placement && !a->json) {
    write_placement(m, g, out);
  } else {
    return inspect_all(a, m, g, out);
  }
  return EXIT_GOOD;
}

static int inspect_file(const void *arguments, page *out) {
  const inspect_arguments *a = arguments;
  const char *dot = strrchr(a->model.program, '.');
  model m = {0};
  graph g = {0};
  if (a->json + a->dot + a->svg + a->html > 1 || (a->placement && a->dot))
    return fail_usage(
        "--json, --dot, --svg and --html exclude each other; --placement goes with all but --dot");
  if (a->profile && !a->svg && !a->html)
    return fail_usage("--profile is for drawings: --svg or --html");
  if (a->dims.count && !a->html) return fail_usage("--dim is for --html");
  if (dot && strcmp(dot, ".safetensors") == 0) return inspect_tensors(a, out);
  int result = inspect_graph(a, &m, &g, out);
  free_graph(&g);
  close_model(&m);
  return result;
}

const command inspect_command = {
    .name = "inspect",
    .usage = "inspect FILE [--json | --dot | --svg | --html] [--placement] [--method M] ...",
    .summary = "Shows what a program or a tensor file holds.",
    .more =
        "clave inspect model.clv --svg > model.svg\n"
        "clave run model.clv --inputs in.safetensors --profile t.json\n"
        "clave inspect model.clv --html --profile t.json > model.html\n",
    .flags = inspect_flags,
    .n_flags = LENGTH(inspect_flags),
    .arguments_size = sizeof(inspect_arguments),
    .run = inspect_file,
};
