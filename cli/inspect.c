/* clave inspect: shows the contents of a program or a .safetensors file. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "clave_files.h"
#include "cli/carried.h"
#include "cli/formats.h"
#include "cli/language.h"
#include "cli/picture.h"
#include "cli/tensor_json.h"

typedef struct inspect_arguments {
  model_arguments model;
  const char *profile;
  text_list dims;
  bool formats, json, dot, svg, html, placement;
} inspect_arguments;

static const flag inspect_flags[] = {
    {"FILE", FLAG_OPTIONAL, offsetof(inspect_arguments, model.program), NULL,
     PROGRAM_FILES ", or a .safetensors file; optional with --formats", 0, 0},
    {"--consts", FLAG_PATH, offsetof(inspect_arguments, model.consts), "FILE",
     "constants of a .json program (default: consts.safetensors beside it)", 0, 0},
    {"--formats", FLAG_SWITCH, offsetof(inspect_arguments, formats), NULL,
     "lists the ops of other formats that programs can be made from", 0, 0},
    {"--json", FLAG_SWITCH, offsetof(inspect_arguments, json), NULL,
     "machine-readable output, with all details", 0, 0},
    {"--dot", FLAG_SWITCH, offsetof(inspect_arguments, dot), NULL,
     "prints the graph in Graphviz's DOT language", 0, 0},
    {"--svg", FLAG_SWITCH, offsetof(inspect_arguments, svg), NULL,
     "prints the graph as an SVG drawing", 0, 0},
    {"--html", FLAG_SWITCH, offsetof(inspect_arguments, html), NULL,
     "prints an HTML page with the graph, the fused ops on the device and the memory plan of a run",
     0, 0},
    {"--profile", FLAG_PATH, offsetof(inspect_arguments, profile), "T.json",
     "with --svg or --html: shows the time of each node, from clave run --profile", 0, 0},
    {"--placement", FLAG_SWITCH, offsetof(inspect_arguments, placement), NULL,
     "shows where each op runs, and why; with --svg: shows fused ops", 0, 0},
    {"--dim", FLAG_LIST, offsetof(inspect_arguments, dims), "NAME=N",
     "with --html: an open size for the memory plan (default: the smallest legal size), or the "
     "value of an integer scalar input; repeatable",
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
    clave_tensor tensor;
    clave_tensors_get(file, i, &name, &tensor);
    cell.size = 0;
    page_visible(&cell, name);
    columns_cell(&table, "%s", cell.size ? cell.data : "\"\"");
    cell.size = 0;
    page_shape(&cell, &tensor);
    columns_cell(&table, "%s", cell.data ? cell.data : "");
    uint64_t bytes = clave_dtype_size(tensor.dtype);
    for (int k = 0; k < tensor.rank; k++) bytes *= (uint64_t)tensor.dims[k];
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
  json_writer writer = {.out = out};
  emit_array(&writer, NULL);
  for (uint32_t i = 0; i < clave_tensors_count(file); i++) {
    const char *name;
    clave_tensor tensor;
    clave_tensors_get(file, i, &name, &tensor);
    emit_object(&writer, NULL);
    emit_string(&writer, "name", name);
    emit_string(&writer, "dtype", clave_dtype_name(tensor.dtype));
    emit_list(&writer, "shape");
    for (int k = 0; k < tensor.rank; k++) emit_integer(&writer, NULL, tensor.dims[k]);
    emit_end_array(&writer);
    emit_end_object(&writer);
  }
  emit_end_array(&writer);
}

static int inspect_tensors(const inspect_arguments *arguments, page *out) {
  clave_tensors *file;
  if (arguments->dot || arguments->svg || arguments->placement || arguments->model.method) {
    return fail("%s: expected a program, got a tensor file, which has no graph",
                arguments->model.program);
  }
  TRY_STATUS(clave_tensors_load(arguments->model.program, &file));
  (arguments->json ? list_tensors_json : list_tensors)(file, out);
  clave_tensors_destroy(file);
  return EXIT_GOOD;
}

/* ---------------------------------------------------------------- the histogram of ops */

typedef struct op_count {
  const char *op;
  uint32_t count;
} op_count;

static int inspect_compare_names(const void *left, const void *right) {
  return strcmp(((const op_count *)left)->op, ((const op_count *)right)->op);
}

static int compare_counts(const void *left, const void *right) {
  const op_count *a = left, *b = right;
  if (a->count != b->count) return a->count < b->count ? 1 : -1;
  return strcmp(a->op, b->op);
}

/* Counts ops, the most frequent first. The caller frees the list; NULL if out of memory. */
static op_count *count_ops(const graph *graph, uint32_t *count) {
  op_count *list = calloc((size_t)graph->n_nodes + 1, sizeof *list);
  uint32_t kept = 0;
  if (!list) return NULL;
  for (uint32_t i = 0; i < graph->n_nodes; i++) list[i] = (op_count){graph->nodes[i].op, 1};
  qsort(list, graph->n_nodes, sizeof *list, inspect_compare_names);
  for (uint32_t i = 0; i < graph->n_nodes; i++) {
    if (kept && strcmp(list[kept - 1].op, list[i].op) == 0) {
      list[kept - 1].count++;
    } else {
      list[kept++] = list[i];
    }
  }
  qsort(list, kept, sizeof *list, compare_counts);
  *count = kept;
  return list;
}

/* ---------------------------------------------------------------- JSON */

static void write_slots_json(json_writer *writer, const char *key, const graph *graph,
                             const uint32_t *slots, uint32_t count) {
  emit_list(writer, key);
  for (uint32_t i = 0; i < count; i++) {
    emit_object(writer, NULL);
    emit_integer(writer, "slot", slots[i]);
    emit_info(writer, &graph->slots[slots[i]]);
    emit_end_object(writer);
  }
  emit_end_array(writer);
}

static void inspect_write_node_json(json_writer *writer, const graph *graph,
                                    const graph_node *node) {
  emit_object(writer, NULL);
  emit_string(writer, "op", node->op);
  emit_string(writer, "name", node->name);
  emit_string(writer, "detail", node->detail);
  if (node->where) emit_string(writer, "where", node->where);
  if (node->where) emit_string(writer, "reason", node->reason);
  write_slots_json(writer, "reads", graph, node->slots, node->n_reads);
  write_slots_json(writer, "writes", graph, node_writes(node), node->n_writes);
  emit_end_object(writer);
}

static void write_arguments_json(json_writer *writer, const char *key,
                                 const clave_tensor_info *list, uint32_t count) {
  emit_array(writer, key);
  for (uint32_t i = 0; i < count; i++) {
    emit_object(writer, NULL);
    emit_info(writer, &list[i]);
    emit_end_object(writer);
  }
  emit_end_array(writer);
}

static int write_method_json(json_writer *writer, const graph *graph) {
  uint32_t n_ops = 0;
  uint64_t peak = 0;
  op_count *ops = count_ops(graph, &n_ops);
  if (!ops || !measure_live_peak(graph, &peak)) {
    free(ops);
    return fail_memory();
  }
  emit_object(writer, NULL);
  emit_string(writer, "name", graph->method);
  write_arguments_json(writer, "inputs", graph->inputs, graph->n_inputs);
  write_arguments_json(writer, "outputs", graph->outputs, graph->n_outputs);
  emit_object(writer, "ops");
  for (uint32_t i = 0; i < n_ops; i++) emit_integer(writer, ops[i].op, ops[i].count);
  emit_end_object(writer);
  if (peak == UINT64_MAX) {
    emit_string(writer, "peak_bytes", NULL);
  } else {
    emit_size(writer, "peak_bytes", peak);
  }
  emit_array(writer, "nodes");
  for (uint32_t i = 0; i < graph->n_nodes; i++)
    inspect_write_node_json(writer, graph, &graph->nodes[i]);
  emit_end_array(writer);
  emit_end_object(writer);
  free(ops);
  return EXIT_GOOD;
}

static void write_kind_json(json_writer *writer, const char *key, const graph *graph,
                            clave_slot_kind kind) {
  emit_array(writer, key);
  for (uint32_t i = 0; i < graph->n_slots; i++) {
    if (graph->slots[i].kind != kind) continue;
    emit_object(writer, NULL);
    emit_info(writer, &graph->slots[i]);
    emit_end_object(writer);
  }
  emit_end_array(writer);
}

/* ---------------------------------------------------------------- page */

static void inspect_write_arguments(const char *title, const clave_tensor_info *list,
                                    uint32_t count, columns *table) {
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

static void inspect_write_nodes(const graph *graph, page *out) {
  columns table = {.n_columns = 5, .right = {[0] = true}};
  page cell = {0};
  for (uint32_t i = 0; i < graph->n_nodes; i++) {
    const graph_node *node = &graph->nodes[i];
    columns_cell(&table, "%" PRIu32, i);
    columns_cell(&table, "%s", node->op);
    cell.size = 0;
    page_visible(&cell, node->name);
    columns_cell(&table, "%s", cell.data ? cell.data : "");
    cell.size = 0;
    text_puts(&cell, "");
    for (uint32_t k = 0; k < node->n_writes; k++) {
      if (k) text_puts(&cell, ", ");
      page_info(&cell, &graph->slots[node_writes(node)[k]]);
    }
    columns_cell(&table, "%s", cell.data ? cell.data : "");
    cell.size = 0;
    page_visible(&cell, node->detail);
    columns_cell(&table, "%s", cell.size ? cell.data : "");
  }
  columns_write(&table, 2, out);
  out->failed |= cell.failed;
  text_free(&cell);
}

static void inspect_write_ops(const op_count *ops, uint32_t n_ops, page *out) {
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

static int inspect_write_method(const graph *graph, page *out) {
  columns table = {.n_columns = 3};
  uint32_t n_ops = 0;
  uint64_t peak = 0;
  op_count *ops = count_ops(graph, &n_ops);
  if (!ops || !measure_live_peak(graph, &peak)) {
    free(ops);
    return fail_memory();
  }
  text_printf(out, "\nmethod   %s, %" PRIu32 " nodes\n", graph->method, graph->n_nodes);
  inspect_write_arguments("inputs ", graph->inputs, graph->n_inputs, &table);
  inspect_write_arguments("outputs", graph->outputs, graph->n_outputs, &table);
  columns_write(&table, 0, out);
  inspect_write_ops(ops, n_ops, out);
  text_puts(out, "memory   ");
  if (peak == UINT64_MAX) {
    const char *name = find_unbounded_size(graph);
    text_puts(out, "temporaries without a bound: ");
    page_visible(out, name ? name : "their sizes together");
    text_puts(out, name ? " has none" : " have none");
  } else {
    text_puts(out, "temporaries and outputs at most ");
    page_size(out, peak);
  }
  text_puts(out, "\n");
  if (graph->n_nodes <= LISTED_NODES) {
    inspect_write_nodes(graph, out);
  } else {
    text_printf(out, "         --json lists the %" PRIu32 " nodes\n", graph->n_nodes);
  }
  free(ops);
  return EXIT_GOOD;
}

/* Totals of the packed weights for one kind of device. */
typedef struct packed_weights {
  const char *device;
  uint32_t count;
  uint64_t bytes;
} packed_weights;

/* Sums all packed weights for the device kind of entry `first`. Sets .count to 0 if an earlier
 * entry has the same kind, because that entry's sum includes this one. */
static int count_packed_weights(const clave_program *program, uint32_t first, uint32_t n,
                                packed_weights *out) {
  for (uint32_t i = 0; i < n; i++) {
    clave_packed_weight_info at = {.size = sizeof at}, info = {.size = sizeof info};
    TRY_STATUS(clave_program_packed_weight(program, first, &at));
    TRY_STATUS(clave_program_packed_weight(program, i, &info));
    if (i == 0) *out = (packed_weights){.device = at.device};
    if (strcmp(info.device, at.device) != 0) continue;
    if (i < first) {
      out->count = 0;
      return EXIT_GOOD;
    }
    out->count++;
    out->bytes += info.bytes;
  }
  return EXIT_GOOD;
}

/* Writes a table if writer is NULL, else JSON. */
static int write_packed_weights(const model *model, json_writer *writer, page *out) {
  const uint32_t n = clave_program_count_packed_weights(model->program);
  if (writer) emit_array(writer, "packed");
  for (uint32_t i = 0; i < n; i++) {
    packed_weights of = {0};
    TRY_EXIT(count_packed_weights(model->program, i, n, &of));
    if (!of.count) continue;
    if (!writer) {
      text_printf(out, "packed   %" PRIu32 " constants, ", of.count);
      page_size(out, of.bytes);
      text_puts(out, ", for ");
      page_visible(out, of.device);
      text_puts(out, "\n");
      continue;
    }
    emit_object(writer, NULL);
    emit_string(writer, "device", of.device);
    emit_size(writer, "constants", of.count);
    emit_size(writer, "bytes", of.bytes);
    emit_end_object(writer);
  }
  if (writer) emit_end_array(writer);
  return EXIT_GOOD;
}

static void inspect_write_program(const inspect_arguments *arguments,
                                  const clave_program_info *info, const graph *graph, page *out) {
  columns table = {.n_columns = 3};
  uint32_t listed = 0;
  text_puts(out, "program  ");
  page_visible(out, arguments->model.program);
  text_printf(out, "\nversion  %" PRIu32 ", by ", info->version);
  page_visible(out, info->producer && *info->producer ? info->producer : "an unnamed producer");
  text_puts(out, "\nmemory   constants ");
  page_size(out, info->constant_bytes);
  text_puts(out, ", state ");
  page_size(out, info->state_bytes);
  text_puts(out, "\n");
  for (uint32_t i = 0; i < graph->n_slots && listed < LISTED_CONSTANTS; i++) {
    if (graph->slots[i].kind != CLAVE_SLOT_CONSTANT) continue;
    inspect_write_arguments(listed++ ? "" : "consts   ", &graph->slots[i], 1, &table);
  }
  columns_write(&table, 0, out);
  if (info->n_constants > listed)
    text_printf(out, "         and %" PRIu32 " more (--json)\n", info->n_constants - listed);
  for (uint32_t i = 0, first = 1; i < graph->n_slots; i++) {
    if (graph->slots[i].kind != CLAVE_SLOT_STATE) continue;
    inspect_write_arguments(first ? "state    " : "", &graph->slots[i], 1, &table);
    first = 0;
  }
  columns_write(&table, 0, out);
}

static void inspect_write_placement(const model *model, const graph *graph, page *out) {
  columns table = {.n_columns = 5, .right = {[0] = true}};
  page cell = {0};
  text_puts(out, "device   ");
  page_device(out, model);
  text_puts(out, "\n");
  if (model->device_info.n_tuned)
    text_printf(out, "tuned    %" PRIu32 " rows (clave tune --list)\n", model->device_info.n_tuned);
  for (uint32_t i = 0; i < graph->n_nodes; i++) {
    const graph_node *node = &graph->nodes[i];
    columns_cell(&table, "%" PRIu32, i);
    columns_cell(&table, "%s", node->where ? node->where : "");
    columns_cell(&table, "%s", node->op);
    cell.size = 0;
    page_visible(&cell, node->name);
    columns_cell(&table, "%s", cell.size ? cell.data : "");
    columns_cell(&table, "%s", node->reason ? node->reason : "");
  }
  columns_write(&table, 0, out);
  out->failed |= cell.failed;
  text_free(&cell);
}

/* ---------------------------------------------------------------- the command */

static int inspect_method(const inspect_arguments *arguments, model *model, json_writer *writer,
                          page *out) {
  graph graph = {0};
  int result = read_graph(model, &graph);
  if (!result && arguments->placement) result = read_placement(model, &graph);
  if (!result && !arguments->placement) find_views(model, &graph);
  if (!result)
    result =
        arguments->json ? write_method_json(writer, &graph) : inspect_write_method(&graph, out);
  free_graph(&graph);
  return result;
}

/* Inspects every method, or only the requested one. */
static int inspect_methods(const inspect_arguments *arguments, model *model, json_writer *writer,
                           page *out) {
  clave_program_info info = {.size = sizeof info};
  if (arguments->model.method) return inspect_method(arguments, model, writer, out);
  TRY_STATUS(clave_program_get_info(model->program, &info));
  for (uint32_t i = 0; i < info.n_methods; i++) {
    TRY_STATUS(clave_program_method(model->program, i, &model->method));
    TRY_EXIT(inspect_method(arguments, model, writer, out));
  }
  return EXIT_GOOD;
}

static int inspect_all(const inspect_arguments *arguments, model *model, const graph *graph,
                       page *out) {
  json_writer writer = {.out = out};
  clave_program_info info = {.size = sizeof info};
  TRY_STATUS(clave_program_get_info(model->program, &info));
  if (!arguments->json) {
    TRY_EXIT(write_language_model(model, graph, NULL, out));
    inspect_write_program(arguments, &info, graph, out);
    TRY_EXIT(write_packed_weights(model, NULL, out));
    TRY_EXIT(write_carried(model->program, NULL, out));
    return inspect_methods(arguments, model, NULL, out);
  }
  emit_object(&writer, NULL);
  emit_string(&writer, "program", arguments->model.program);
  emit_size(&writer, "version", info.version);
  emit_string(&writer, "producer", info.producer);
  emit_size(&writer, "constant_bytes", info.constant_bytes);
  emit_size(&writer, "state_bytes", info.state_bytes);
  write_kind_json(&writer, "constants", graph, CLAVE_SLOT_CONSTANT);
  write_kind_json(&writer, "state", graph, CLAVE_SLOT_STATE);
  TRY_EXIT(write_packed_weights(model, &writer, out));
  TRY_EXIT(write_carried(model->program, &writer, out));
  emit_array(&writer, "methods");
  TRY_EXIT(inspect_methods(arguments, model, &writer, out));
  emit_end_array(&writer);
  TRY_EXIT(write_language_model(model, graph, &writer, out));
  emit_end_object(&writer);
  return EXIT_GOOD;
}

static int inspect_draw(const inspect_arguments *arguments, model *model, graph *graph, page *out) {
  node_times times = {0};
  int result = arguments->profile ? read_times(arguments->profile, graph, &times) : EXIT_GOOD;
  if (!result && arguments->profile) result = show_times(&times, graph);
  if (!result)
    result = arguments->html
                 ? write_picture(model, graph, arguments->model.program,
                                 arguments->profile ? &times : NULL, &arguments->dims, out)
                 : write_svg(graph, NULL, out);
  free_times(&times);
  return result;
}

static int inspect_graph(const inspect_arguments *arguments, model *model, graph *graph,
                         page *out) {
  TRY_EXIT(open_program(&arguments->model, model));
  TRY_EXIT(read_graph(model, graph));
  if (arguments->placement || arguments->html) {
    TRY_EXIT(open_device(&arguments->model, model));
    TRY_EXIT(read_placement(model, graph));
  }
  if (arguments->svg || arguments->html) return inspect_draw(arguments, model, graph, out);
  if (arguments->dot) {
    write_dot(graph, out);
  } else if (arguments->placement && !arguments->json) {
    inspect_write_placement(model, graph, out);
  } else {
    return inspect_all(arguments, model, graph, out);
  }
  return EXIT_GOOD;
}

static int inspect_file(const void *given, page *out) {
  const inspect_arguments *arguments = given;
  model model = {0};
  graph graph = {0};
  if (arguments->formats && arguments->model.program)
    return fail_usage("--formats: expected no file");
  if (!arguments->formats && !arguments->model.program)
    return fail_usage("inspect needs FILE: " PROGRAM_FILES ", or a .safetensors file");
  if (arguments->formats) {
    write_import_ops(arguments->json, out);
    return EXIT_GOOD;
  }
  const char *dot = strrchr(arguments->model.program, '.');
  if (arguments->json + arguments->dot + arguments->svg + arguments->html > 1 ||
      (arguments->placement && arguments->dot))
    return fail_usage(
        "--json, --dot, --svg and --html exclude each other, and --placement excludes --dot");
  if (arguments->profile && !arguments->svg && !arguments->html)
    return fail_usage("--profile needs --svg or --html");
  if (arguments->dims.count && !arguments->html) return fail_usage("--dim needs --html");
  if (dot && strcmp(dot, ".safetensors") == 0) return inspect_tensors(arguments, out);
  int result = inspect_graph(arguments, &model, &graph, out);
  free_graph(&graph);
  close_model(&model);
  return result;
}

const command inspect_command = {
    .name = "inspect",
    .usage =
        "inspect [FILE] [--formats] [--json | --dot | --svg | --html] [--placement] [--method M] "
        "...",
    .summary = "Shows the contents of a program or a tensor file.",
    .more =
        "clave inspect model.clv --svg > model.svg\n"
        "clave run model.clv --inputs in.safetensors --profile t.json\n"
        "clave inspect model.clv --html --profile t.json > model.html\n",
    .flags = inspect_flags,
    .n_flags = LENGTH(inspect_flags),
    .arguments_size = sizeof(inspect_arguments),
    .run = inspect_file,
};
