/* Converts a model: its inputs, its graph, its outputs. */
#include "import/onnx/onnx.h"

#include <stdlib.h>
#include <string.h>

#include "import/onnx/decoder.h"
#include "json/writer.h"

/* ---------------------------------------------------------------- inputs */

/* A name of an open size and its host scalar. */
typedef struct open_size {
  const char *name;
  number size;
} open_size;
typedef struct open_sizes {
  open_size *items; /* owned */
  size_t count, capacity;
} open_sizes;

/* Returns the host scalar of an open size. Sizes of one name are one scalar. */
static number open_dim(importer *im, open_sizes *sizes, const char *name) {
  for (size_t i = 0; i < sizes->count; i++)
    if (strcmp(sizes->items[i].name, name) == 0) return sizes->items[i].size;
  number size = number_new(im, name, NUMBER_INT, 0, INT64_MAX);
  size.most = NUMBER_MAX_SIZE;
  if (!array_reserve(&sizes->items, &sizes->capacity, sizes->count + 1, sizeof *sizes->items)) {
    import_fail(im, status_no_memory());
    return size;
  }
  sizes->items[sizes->count++] = (open_size){name, size};
  return size;
}

static void check_info(importer *im, const onnx_value_info *info) {
  clave_dtype type;
  if (!info->is_tensor)
    import_unsupported(im, "expected a tensor, got a sequence, map or optional");
  else if (!onnx_dtype(info->elem_type, &type))
    import_unsupported(im, "dtype %s", onnx_dtype_name(info->elem_type));
  else if (!info->has_shape)
    import_unsupported(im, "the number of dimensions is not known");
  else if (info->rank > CLAVE_MAX_RANK)
    import_unsupported(im, "rank %zu (at most %d)", info->rank, CLAVE_MAX_RANK);
}

static value *declare_graph_input(importer *im, const onnx_value_info *info, open_sizes *sizes) {
  clave_dtype type;
  number dims[CLAVE_MAX_RANK];
  check_info(im, info);
  if (!import_ok(im)) return NULL;
  (void)onnx_dtype(info->elem_type, &type);
  for (size_t i = 0; i < info->rank; i++) {
    const onnx_dim *dim = &info->dims[i];
    const bool named = dim->name[0] && strcmp(dim->name, "?") != 0; /* some exporters' "?" */
    const char *name = named ? dim->name : import_text(im, "%s_dim_%zu", info->name, i);
    dims[i] = dim->size >= 0 ? number_int(dim->size) : open_dim(im, sizes, name);
  }
  value *input = emit_input(im, info->name, type, (int)info->rank, dims);
  if (input) input->bits = onnx_dtype_bits(info->elem_type);
  return input;
}

/* Inputs that are initializers, too, which are bound already, stay constants. */
static void bind_inputs(onnx_import *onnx, const onnx_graph *graph) {
  const onnx_binding *bound;
  const size_t n_initializers = onnx->n_bindings;
  open_sizes sizes = {0};
  for (size_t i = 0; i < graph->n_inputs && !onnx->im->fatal; i++) {
    const onnx_value_info *info = &graph->inputs[i];
    bound = onnx_lookup(onnx, info->name);
    if (bound && bound < onnx->bindings + n_initializers) continue;
    onnx->im->node = info->name;
    value *input = declare_graph_input(onnx->im, info, &sizes);
    if (!import_end_node(onnx->im, "input")) input = NULL;
    if (!onnx->im->fatal) onnx_bind(onnx, info->name, input);
  }
  free(sizes.items);
}

/* ---------------------------------------------------------------- outputs */

static void add_outputs(onnx_import *onnx, const onnx_graph *graph) {
  importer *im = onnx->im;
  for (size_t i = 0; i < graph->n_outputs && !im->fatal; i++) {
    const char *name = graph->outputs[i].name;
    const onnx_binding *out = onnx_lookup(onnx, name);
    if (!out) {
      im->fatal = INVALID("output '%.100s' is the result of no node", name);
      return;
    }
    im->node = name;
    if (out->value)
      emit_output(im, name, out->value);
    else if (!im->n_reported)
      import_unsupported(im, "an absent optional, or a result that the op does not have");
    (void)import_end_node(im, "output");
  }
}

/* ---------------------------------------------------------------- models */

static bool is_default_domain(const onnx_opset *opset) {
  return !opset->domain[0] || strcmp(opset->domain, "ai.onnx") == 0;
}

static clave_status check_model(const onnx_model *model) {
  if (!model->has_graph) return INVALID("the model has no graph");
  if (!model->graph.n_outputs) return INVALID("the graph has no outputs");
  if (!model->opsets.count) return INVALID("the model imports no opset");
  for (size_t i = 0; i < model->opsets.count; i++) {
    const onnx_opset *opset = &model->opsets.items[i];
    if (is_default_domain(opset) && opset->version < ONNX_OPSET_FIRST)
      return UNSUPPORTED("opset %lld: expected at least %d", (long long)opset->version,
                         ONNX_OPSET_FIRST);
  }
  return NULL;
}

/* Returns a note if the file is of newer versions than those that are known, or NULL. */
static const char *versions_note(importer *im, const onnx_model *model) {
  long long opset = 0;
  for (size_t i = 0; i < model->opsets.count; i++)
    if (is_default_domain(&model->opsets.items[i])) opset = model->opsets.items[i].version;
  if (model->ir_version <= ONNX_IR && opset <= ONNX_OPSET) return NULL;
  return import_text(im,
                     "the file has IR version %lld and opset %lld; the newest known are %d and %d",
                     (long long)model->ir_version, opset, ONNX_IR, ONNX_OPSET);
}

/* Adds the note, and whether conversations must not share pages. */
static void add_metadata(const onnx_import *onnx, const onnx_model *model) {
  const char *note = versions_note(onnx->im, model);
  const bool mixes = onnx->decoder && onnx->decoder->mixes_tokens;
  text metadata = {0};
  json_writer out = {.out = &metadata, .compact = true};
  if (!note && !mixes) return;
  emit_object(&out, NULL);
  if (note) {
    emit_array(&out, "notes");
    emit_string(&out, NULL, note);
    emit_end_array(&out);
  }
  if (mixes) {
    emit_object(&out, "llm");
    emit_bool(&out, "pages", false);
    emit_end_object(&out);
  }
  emit_end_object(&out);
  clave_status st = text_status(&metadata);
  if (!st) clave_builder_metadata(onnx->im->builder, metadata.data);
  import_end(onnx->im, st);
  text_free(&metadata);
}

static void convert_model(onnx_import *onnx, const onnx_model *model, int64_t max_context) {
  importer *im = onnx->im;
  onnx_frame frame = {.opsets = &model->opsets};
  onnx->frame = &frame;
  clave_builder_method(im->builder, "forward");
  if (model->producer[0])
    clave_builder_producer(
        im->builder, import_text(im, "%.100s %.50s", model->producer, model->producer_version));
  onnx_bind_initializers(onnx, &model->graph);
  if (max_context)
    decoder_bind_inputs(onnx, &model->graph, max_context);
  else
    bind_inputs(onnx, &model->graph);
  onnx_convert_nodes(onnx, model->graph.nodes, model->graph.n_nodes);
  if (onnx->decoder)
    decoder_add_outputs(onnx, &model->graph);
  else
    add_outputs(onnx, &model->graph);
  add_metadata(onnx, model);
}

void onnx_convert(importer *im, const import_source *source) {
  onnx_model model;
  onnx_import onnx = {.im = im, .model = &model};
  im->fatal = onnx_read_model(im->pool, (span){source->bytes, source->size}, &model);
  if (!im->fatal) im->fatal = check_model(&model);
  if (!im->fatal) im->fatal = onnx_names_create(&onnx);
  if (!im->fatal) {
    const char *path = source->path;
    const size_t n = path ? path_last(path) : 0;
    if (path) onnx.folder = n ? import_text(im, "%.*s", (int)n, path) : ".";
    convert_model(&onnx, &model, source->max_context);
  }
  onnx_names_destroy(&onnx);
}
