/* Decodes ONNX files: one reader by tables of fields, for all messages. */
#include "import/onnx/model.h"

#include <stddef.h>
#include <string.h>

enum { MAX_ITEMS = 1 << 24 };

/* The kinds of fields: how a field is stored in its struct. */
typedef enum field_kind {
  FIELD_INT64,
  FIELD_INT32,
  FIELD_FLOAT,
  FIELD_TEXT,    /* const char *, copied */
  FIELD_SPAN,    /* span */
  FIELD_TEXTS,   /* onnx_texts */
  FIELD_VARINTS, /* onnx_numbers */
  FIELD_FIXED32,
  FIELD_FIXED64,
  FIELD_MESSAGE,  /* a struct, decoded in place */
  FIELD_MESSAGES, /* {items, count, capacity} of structs */
  FIELD_SPANS,    /* {items, count, capacity} of spans */
  FIELD_COUNT     /* size_t: the number of occurrences */
} field_kind;

typedef struct message_table message_table;
typedef struct message_field {
  uint32_t number;
  field_kind kind;
  size_t offset;
  const message_table *table; /* the fields of a message */
} message_field;
struct message_table {
  const char *name;
  const message_field *fields;
  size_t n_fields, size;
  /* Completes a field that the table does not describe; may be NULL. */
  clave_status (*other)(mem_pool *pool, const proto_field *field, void *out);
};

/* The layout of every list: {items, count, capacity}, whose items have a type of their own. */
typedef struct list {
  void *items;
  size_t count, capacity;
} list;

/* Appends a zeroed item to a list in the pool; NULL when memory is out. */
static void *append(mem_pool *pool, void *to, size_t size) {
  list list;
  memcpy(&list, to, sizeof list);
  if (list.count == list.capacity) {
    list.capacity = list.capacity ? 2 * list.capacity : 4;
    void *items = list.count >= MAX_ITEMS ? NULL : mem_pool_alloc(pool, list.capacity, size);
    if (!items) return NULL;
    if (list.count) memcpy(items, list.items, list.count * size);
    list.items = items;
  }
  void *item = (char *)list.items + list.count++ * size;
  memcpy(to, &list, sizeof list);
  return item;
}

static clave_status decode_message(mem_pool *pool, span bytes, const message_table *table,
                                   void *out);

typedef struct number_list {
  mem_pool *pool;
  void *list;
} number_list;

static clave_status add_repeated_number(void *ctx, uint64_t number) {
  number_list *numbers = ctx;
  uint64_t *to = append(numbers->pool, numbers->list, sizeof *to);
  if (!to) return status_no_memory();
  *to = number;
  return NULL;
}

static clave_status copy_bytes_as_text(mem_pool *pool, span bytes, const char **out) {
  *out = mem_pool_strdup(pool, bytes.data ? bytes.data : "", bytes.size);
  return *out ? NULL : status_no_memory();
}

static clave_status store_bytes(mem_pool *pool, const proto_field *field, const message_field *row,
                                void *at) {
  if (row->kind == FIELD_MESSAGE) return decode_message(pool, field->bytes, row->table, at);
  if (row->kind == FIELD_TEXT) return copy_bytes_as_text(pool, field->bytes, at);
  if (row->kind == FIELD_SPAN) {
    *(span *)at = field->bytes;
    return NULL;
  }
  const size_t size = row->kind == FIELD_TEXTS   ? sizeof(const char *)
                      : row->kind == FIELD_SPANS ? sizeof(span)
                                                 : row->table->size;
  void *item = append(pool, at, size);
  if (!item) return status_no_memory();
  if (row->kind == FIELD_TEXTS) return copy_bytes_as_text(pool, field->bytes, item);
  if (row->kind == FIELD_SPANS) {
    *(span *)item = field->bytes;
    return NULL;
  }
  return decode_message(pool, field->bytes, row->table, item);
}

static clave_status store_numbers(mem_pool *pool, const proto_field *field,
                                  const message_field *row, void *at) {
  number_list numbers = {pool, at};
  const proto_wire wire = row->kind == FIELD_VARINTS   ? PROTO_VARINT
                          : row->kind == FIELD_FIXED32 ? PROTO_FIXED32
                                                       : PROTO_FIXED64;
  return proto_each_number(field, wire, add_repeated_number, &numbers);
}

static clave_status store_single(const proto_field *field, const message_field *row, void *at) {
  const uint32_t bits = (uint32_t)field->value;
  if (row->kind == FIELD_COUNT)
    ++*(size_t *)at;
  else if (row->kind == FIELD_INT64 && field->wire == PROTO_VARINT)
    memcpy(at, &field->value, 8);
  else if (row->kind == FIELD_INT32 && field->wire == PROTO_VARINT)
    memcpy(at, &bits, 4);
  else if (row->kind == FIELD_FLOAT && field->wire == PROTO_FIXED32)
    memcpy(at, &bits, 4);
  else
    return INVALID("field %u has wire type %d", field->number, (int)field->wire);
  return NULL;
}

static clave_status store_field(mem_pool *pool, const proto_field *field, const message_field *row,
                                void *out) {
  void *at = (char *)out + row->offset;
  switch (row->kind) {
    case FIELD_VARINTS:
    case FIELD_FIXED32:
    case FIELD_FIXED64:
      return store_numbers(pool, field, row, at);
    case FIELD_INT64:
    case FIELD_INT32:
    case FIELD_FLOAT:
    case FIELD_COUNT:
      return store_single(field, row, at);
    default:
      if (field->wire == PROTO_BYTES) return store_bytes(pool, field, row, at);
      return INVALID("field %u has wire type %d, expected bytes", field->number, (int)field->wire);
  }
}

/* Sets texts that the file may lack to "". */
static void set_texts(const message_table *table, void *out) {
  static const char *const none = "";
  for (size_t i = 0; i < table->n_fields; i++) {
    const char *text;
    char *at = (char *)out + table->fields[i].offset;
    if (table->fields[i].kind != FIELD_TEXT) continue;
    memcpy(&text, at, sizeof text);
    if (!text) memcpy(at, &none, sizeof none);
  }
}

/* The tables form no circle (graphs within attributes are decoded when they are read), so the
 * recursion ends. */
static clave_status decode_message(mem_pool *pool, span bytes, const message_table *table,
                                   void *out) {
  proto_reader reader = {bytes, 0};
  proto_field field;
  bool more;
  set_texts(table, out);
  for (;;) {
    TRY(status_while(proto_next(&reader, &field, &more), "%s", table->name));
    if (!more) return NULL;
    clave_status st = NULL;
    for (size_t i = 0; i < table->n_fields && !st; i++)
      if (table->fields[i].number == field.number)
        st = store_field(pool, &field, &table->fields[i], out);
    if (!st && table->other) st = table->other(pool, &field, out);
    TRY(status_while(st, "%s", table->name));
  }
}

#define N(array) (sizeof array / sizeof *array)
#define AT(type, number, kind, member) \
  { number, kind, offsetof(type, member), NULL }
#define OF(type, number, kind, member, of) \
  { number, kind, offsetof(type, member), &of }

/* ---------------------------------------------------------------- tensors and attributes */

static const message_field entry_fields[] = {AT(onnx_entry, 1, FIELD_TEXT, key),
                                             AT(onnx_entry, 2, FIELD_TEXT, value)};
static const message_table entry_table = {"entry", entry_fields, N(entry_fields),
                                          sizeof(onnx_entry), NULL};

/* Fields that are stored in another way: packed floats in place, and entries of external data. */
static clave_status read_tensor_field(mem_pool *pool, const proto_field *field, void *out) {
  onnx_tensor *tensor = out;
  if (field->number == 9) tensor->has_raw = true;
  if (field->number == 14) tensor->is_external = field->value == 1;
  if (field->number == 13 && field->wire == PROTO_BYTES) {
    onnx_entry entry = {"", ""};
    TRY(decode_message(pool, field->bytes, &entry_table, &entry));
    if (strcmp(entry.key, "location") == 0) tensor->location = entry.value;
    if (strcmp(entry.key, "offset") == 0) tensor->offset = entry.value;
    if (strcmp(entry.key, "length") == 0) tensor->length = entry.value;
  }
  if (field->number != 4 && field->number != 10) return NULL;
  span *packed = field->number == 4 ? &tensor->packed_floats : &tensor->packed_doubles;
  number_list numbers = {pool, &tensor->numbers};
  if (field->wire == PROTO_BYTES && !packed->data && !tensor->numbers.count) {
    *packed = field->bytes;
    return NULL;
  }
  return proto_each_number(field, field->number == 4 ? PROTO_FIXED32 : PROTO_FIXED64,
                           add_repeated_number, &numbers);
}

static const message_field tensor_fields[] = {
    AT(onnx_tensor, 1, FIELD_VARINTS, dims),    AT(onnx_tensor, 2, FIELD_INT32, data_type),
    AT(onnx_tensor, 5, FIELD_VARINTS, numbers), AT(onnx_tensor, 6, FIELD_COUNT, n_strings),
    AT(onnx_tensor, 7, FIELD_VARINTS, numbers), AT(onnx_tensor, 8, FIELD_TEXT, name),
    AT(onnx_tensor, 9, FIELD_SPAN, raw_data),   AT(onnx_tensor, 11, FIELD_VARINTS, numbers)};
static const message_table tensor_table = {"tensor", tensor_fields, N(tensor_fields),
                                           sizeof(onnx_tensor), read_tensor_field};

static const message_field sparse_fields[] = {
    OF(onnx_sparse, 1, FIELD_MESSAGE, values, tensor_table),
    OF(onnx_sparse, 2, FIELD_MESSAGE, indices, tensor_table),
    AT(onnx_sparse, 3, FIELD_VARINTS, dims)};
static const message_table sparse_table = {"sparse tensor", sparse_fields, N(sparse_fields),
                                           sizeof(onnx_sparse), NULL};

static const message_field attribute_fields[] = {
    AT(onnx_attribute, 1, FIELD_TEXT, name),       AT(onnx_attribute, 2, FIELD_FLOAT, f),
    AT(onnx_attribute, 3, FIELD_INT64, i),         AT(onnx_attribute, 4, FIELD_SPAN, s),
    AT(onnx_attribute, 5, FIELD_SPAN, t),          AT(onnx_attribute, 6, FIELD_SPAN, g),
    AT(onnx_attribute, 7, FIELD_FIXED32, floats),  AT(onnx_attribute, 8, FIELD_VARINTS, ints),
    AT(onnx_attribute, 9, FIELD_TEXTS, strings),   AT(onnx_attribute, 20, FIELD_INT32, type),
    AT(onnx_attribute, 21, FIELD_TEXT, reference), AT(onnx_attribute, 22, FIELD_SPAN, sparse)};
static const message_table attribute_table = {"attribute", attribute_fields, N(attribute_fields),
                                              sizeof(onnx_attribute), NULL};

/* ---------------------------------------------------------------- graphs */

static const message_field node_fields[] = {
    AT(onnx_node, 1, FIELD_TEXTS, inputs),
    AT(onnx_node, 2, FIELD_TEXTS, outputs),
    AT(onnx_node, 3, FIELD_TEXT, name),
    AT(onnx_node, 4, FIELD_TEXT, op),
    OF(onnx_node, 5, FIELD_MESSAGES, attributes, attribute_table),
    AT(onnx_node, 7, FIELD_TEXT, domain),
    AT(onnx_node, 8, FIELD_TEXT, overload)};
static const message_table node_table = {"node", node_fields, N(node_fields), sizeof(onnx_node),
                                         NULL};

/* A dimension: 1 is its size, 2 its name. */
static clave_status read_dim_field(mem_pool *pool, const proto_field *field, void *out) {
  onnx_dim *dim = out;
  if (field->number == 1 && field->wire == PROTO_VARINT) dim->size = (int64_t)field->value;
  return field->number == 2 && field->wire == PROTO_BYTES
             ? copy_bytes_as_text(pool, field->bytes, &dim->name)
             : NULL;
}
static clave_status read_shape_field(mem_pool *pool, const proto_field *field, void *out) {
  static const message_table dim_table = {"dimension", NULL, 0, sizeof(onnx_dim), read_dim_field};
  onnx_value_info *info = out;
  if (field->number != 1 || field->wire != PROTO_BYTES) return NULL;
  onnx_dim *dim = append(pool, &info->dims, sizeof *dim);
  if (!dim) return status_no_memory();
  *dim = (onnx_dim){-1, ""};
  return decode_message(pool, field->bytes, &dim_table, dim);
}
static clave_status read_tensor_type(mem_pool *pool, const proto_field *field, void *out) {
  static const message_table shape_table = {"shape", NULL, 0, 0, read_shape_field};
  onnx_value_info *info = out;
  if (field->number == 1 && field->wire == PROTO_VARINT) info->elem_type = (int32_t)field->value;
  if (field->number != 2 || field->wire != PROTO_BYTES) return NULL;
  info->has_shape = true;
  return decode_message(pool, field->bytes, &shape_table, out);
}
static clave_status read_type(mem_pool *pool, const proto_field *field, void *out) {
  static const message_table type_table = {"tensor type", NULL, 0, 0, read_tensor_type};
  onnx_value_info *info = out;
  if (field->number != 1 || field->wire != PROTO_BYTES) return NULL;
  info->is_tensor = true;
  return decode_message(pool, field->bytes, &type_table, out);
}
static clave_status read_info(mem_pool *pool, const proto_field *field, void *out) {
  static const message_table type_table = {"type", NULL, 0, 0, read_type};
  return field->number == 2 && field->wire == PROTO_BYTES
             ? decode_message(pool, field->bytes, &type_table, out)
             : NULL;
}
static const message_field info_fields[] = {AT(onnx_value_info, 1, FIELD_TEXT, name)};
static const message_table info_table = {"value info", info_fields, N(info_fields),
                                         sizeof(onnx_value_info), read_info};

static const message_field graph_fields[] = {
    OF(onnx_graph, 1, FIELD_MESSAGES, nodes, node_table),
    AT(onnx_graph, 2, FIELD_TEXT, name),
    OF(onnx_graph, 5, FIELD_MESSAGES, initializers, tensor_table),
    OF(onnx_graph, 11, FIELD_MESSAGES, inputs, info_table),
    OF(onnx_graph, 12, FIELD_MESSAGES, outputs, info_table),
    AT(onnx_graph, 15, FIELD_SPANS, sparse)};
static const message_table graph_table = {"graph", graph_fields, N(graph_fields),
                                          sizeof(onnx_graph), NULL};

/* ---------------------------------------------------------------- models */

static const message_field opset_fields[] = {AT(onnx_opset, 1, FIELD_TEXT, domain),
                                             AT(onnx_opset, 2, FIELD_INT64, version)};
static const message_table opset_table = {"opset", opset_fields, N(opset_fields),
                                          sizeof(onnx_opset), NULL};

static const message_field function_fields[] = {
    AT(onnx_function, 1, FIELD_TEXT, name),
    AT(onnx_function, 4, FIELD_TEXTS, inputs),
    AT(onnx_function, 5, FIELD_TEXTS, outputs),
    AT(onnx_function, 6, FIELD_TEXTS, attributes),
    OF(onnx_function, 7, FIELD_MESSAGES, nodes, node_table),
    OF(onnx_function, 9, FIELD_MESSAGES, opsets, opset_table),
    AT(onnx_function, 10, FIELD_TEXT, domain),
    OF(onnx_function, 11, FIELD_MESSAGES, defaults, attribute_table),
    AT(onnx_function, 13, FIELD_TEXT, overload)};
static const message_table function_table = {"function", function_fields, N(function_fields),
                                             sizeof(onnx_function), NULL};

static clave_status read_model_field(mem_pool *pool, const proto_field *field, void *out) {
  (void)pool;
  if (field->number == 7) ((onnx_model *)out)->has_graph = true;
  return NULL;
}
static const message_field model_fields[] = {
    AT(onnx_model, 1, FIELD_INT64, ir_version),
    AT(onnx_model, 2, FIELD_TEXT, producer),
    AT(onnx_model, 3, FIELD_TEXT, producer_version),
    OF(onnx_model, 7, FIELD_MESSAGE, graph, graph_table),
    OF(onnx_model, 8, FIELD_MESSAGES, opsets, opset_table),
    OF(onnx_model, 14, FIELD_MESSAGES, metadata, entry_table),
    OF(onnx_model, 25, FIELD_MESSAGES, functions, function_table)};
static const message_table model_table = {"model", model_fields, N(model_fields),
                                          sizeof(onnx_model), read_model_field};

clave_status onnx_read_model(mem_pool *pool, span bytes, onnx_model *out) {
  *out = (onnx_model){.pool = pool};
  return decode_message(pool, bytes, &model_table, out);
}
clave_status onnx_read_graph(mem_pool *pool, span bytes, onnx_graph *out) {
  *out = (onnx_graph){0};
  return decode_message(pool, bytes, &graph_table, out);
}
clave_status onnx_read_tensor(mem_pool *pool, span bytes, onnx_tensor *out) {
  *out = (onnx_tensor){0};
  return decode_message(pool, bytes, &tensor_table, out);
}

clave_status onnx_read_sparse(mem_pool *pool, span bytes, onnx_sparse *out) {
  *out = (onnx_sparse){0};
  set_texts(&tensor_table, &out->values);
  set_texts(&tensor_table, &out->indices);
  return decode_message(pool, bytes, &sparse_table, out);
}

bool onnx_is_model(const void *bytes, size_t size) {
  proto_reader reader = {{bytes, size}, 0};
  proto_field field;
  bool more, has_graph = false;
  for (;;) {
    clave_status st = proto_next(&reader, &field, &more);
    if (st) {
      status_free(st);
      return false;
    }
    if (!more) return has_graph;
    if (field.number > 64) return false;
    has_graph = has_graph || (field.number == 7 && field.wire == PROTO_BYTES);
  }
}
