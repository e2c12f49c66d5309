/* Tensors of the file: dtypes, constants, and sparse constants, which are expanded. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/dtype.h"
#include "base/hash.h"
#include "import/tflite/node.h"

static const struct {
  const char *name;
  int dtype; /* -1: clave lacks it */
} types[] = {{"FLOAT32", CLAVE_F32},
             {"FLOAT16", CLAVE_F16},
             {"INT32", CLAVE_I32},
             {"UINT8", CLAVE_U8},
             {"INT64", CLAVE_I64},
             {"STRING", -1},
             {"BOOL", CLAVE_BOOL},
             {"INT16", CLAVE_I16},
             {"COMPLEX64", -1},
             {"INT8", CLAVE_I8},
             {"FLOAT64", CLAVE_F64},
             {"COMPLEX128", -1},
             {"UINT64", CLAVE_U64},
             {"RESOURCE", CLAVE_I32},
             {"VARIANT", -1},
             {"UINT32", CLAVE_U32},
             {"UINT16", CLAVE_U16},
             {"INT4", CLAVE_I8},
             {"BFLOAT16", CLAVE_BF16},
             {"INT2", -1},
             {"UINT4", -1}};
enum { N_TYPES = sizeof types / sizeof *types };

bool tflite_dtype(int type, clave_dtype *out) {
  if (type < 0 || type >= N_TYPES || types[type].dtype < 0) return false;
  *out = (clave_dtype)types[type].dtype;
  return true;
}

const char *tflite_dtype_name(int type) {
  return type >= 0 && type < N_TYPES ? types[type].name : "unknown";
}

/* ---------------------------------------------------------------- names */

static bool insert_name(const char **table, size_t capacity, const char *name) {
  size_t at = (size_t)hash_bytes(name, strlen(name)) % capacity;
  for (; table[at]; at = (at + 1) % capacity)
    if (strcmp(table[at], name) == 0) return false;
  table[at] = name;
  return true;
}

static bool grow_names(tflite_import *tflite) {
  const size_t capacity = tflite->cap_names ? 2 * tflite->cap_names : 256;
  const char **table = calloc(capacity, sizeof *table);
  if (!table) return false;
  for (size_t i = 0; i < tflite->cap_names; i++)
    if (tflite->names[i]) (void)insert_name(table, capacity, tflite->names[i]);
  free(tflite->names);
  tflite->names = table;
  tflite->cap_names = capacity;
  return true;
}

const char *tflite_unique_name(tflite_import *tflite, const char *name) {
  if (2 * tflite->n_names >= tflite->cap_names && !grow_names(tflite)) {
    import_fail(tflite->im, status_no_memory());
    return name;
  }
  /* names with # are made from others: the number after it is used once */
  if (!name[0] || strchr(name, '#') || !insert_name(tflite->names, tflite->cap_names, name))
    return import_text(tflite->im, "%s#%u", name, tflite->im->n_names++);
  tflite->n_names++;
  return name;
}

/* ---------------------------------------------------------------- bytes */

/* Returns the bytes of a tensor's buffer; of size 0 if it has none. */
static span tensor_bytes_of(const tflite_import *tflite, const operand *tensor) {
  const uint32_t index = (uint32_t)flat_int(&tensor->table, 2, 4, 0);
  const flat_table buffer = flat_table_at(&tflite->buffers, index);
  const flat_vector data = flat_list(&buffer, 0, 1);
  const uint64_t offset = (uint64_t)flat_int(&buffer, 1, 8, 0),
                 size = (uint64_t)flat_int(&buffer, 2, 8, 0);
  if (data.count) return (span){(const char *)flat_bytes(&data), data.count};
  if (offset <= 1 || !size) return (span){0};
  if (offset > tflite->file.size || size > tflite->file.size - offset) {
    import_invalid(tflite->im, "buffer %u is outside of the file", index);
    return (span){0};
  }
  return (span){(const char *)tflite->file.data + offset, (size_t)size};
}

/* Reads a static shape. Returns the number of elements, -1 after an error. */
static int64_t static_shape(importer *im, const operand *tensor, int64_t *dims, int *rank) {
  const flat_vector shape = flat_list(&tensor->table, 0, 4);
  int64_t n = 1;
  if (shape.count > CLAVE_MAX_RANK) import_unsupported(im, "a tensor of rank %u", shape.count);
  for (uint32_t d = 0; d < shape.count && import_ok(im); d++) {
    dims[d] = flat_int_at(&shape, d);
    if (dims[d] < 0 || !mul_i64(n, dims[d], &n) || n > INT64_MAX / 64)
      import_invalid(im, "the sizes of tensor '%.100s' are negative or overflow", tensor->name);
  }
  *rank = (int)shape.count;
  return import_ok(im) ? n : -1;
}

bool tflite_is_constant(const tflite_import *tflite, const operand *tensor) {
  const flat_vector shape = flat_list(&tensor->table, 0, 4);
  if (tensor_bytes_of(tflite, tensor).size) return true;
  for (uint32_t d = 0; d < shape.count; d++)
    if (flat_int_at(&shape, d) == 0) return true;
  return false;
}

/* ---------------------------------------------------------------- sparse constants */

enum { SPARSE = 1, MAX_SPARSE = 2 * CLAVE_MAX_RANK };

/* A dimension of the traversal: dense, or compressed rows. */
typedef struct sparse_dim {
  bool is_sparse;
  int64_t size; /* dense */
  flat_vector segments, indices;
} sparse_dim;

typedef struct sparse_tensor {
  importer *im;
  int n; /* dimensions of the traversal: those of the tensor, then those of blocks */
  sparse_dim dims[MAX_SPARSE];
  int order[MAX_SPARSE]; /* the dimension that is traversed at each depth */
  int block[MAX_SPARSE]; /* the tensor's dimension of each dimension of blocks */
  int64_t block_size[MAX_SPARSE];
  int rank;
  const int64_t *sizes;
  size_t element;
  span stored;
  size_t at;     /* stored elements so far */
  int64_t steps; /* left, for a hostile file */
  uint8_t *out;
} sparse_tensor;

static flat_vector sparse_list(const flat_table *dim, int slot) {
  const int64_t type = flat_int(dim, slot, 1, 0);
  const flat_table list = flat_child(dim, slot + 1);
  return flat_list(&list, 0, type == 1 ? 4 : type == 2 ? 2 : 1);
}

static int64_t sparse_number(const flat_vector *list, int64_t i) {
  const int64_t number = flat_int_at(list, (uint32_t)i);
  if (list->item_size == 1) return (uint8_t)number;
  return list->item_size == 2 ? (uint16_t)number : number;
}

static bool read_sparse(sparse_tensor *sparse, const flat_table *table) {
  const flat_vector order = flat_list(table, 0, 4), map = flat_list(table, 1, 4),
                    dims = flat_list(table, 2, 4);
  sparse->n = (int)order.count;
  bool good = order.count == dims.count && order.count <= MAX_SPARSE &&
              order.count == (uint32_t)sparse->rank + map.count && map.count <= CLAVE_MAX_RANK;
  for (uint32_t i = 0; good && i < order.count; i++) {
    const flat_table dim = flat_table_at(&dims, i);
    sparse_dim *to = &sparse->dims[i];
    sparse->order[i] = (int)flat_int_at(&order, i);
    good = sparse->order[i] >= 0 && sparse->order[i] < sparse->n;
    to->is_sparse = flat_int(&dim, 0, 1, 0) == SPARSE;
    to->size = flat_int(&dim, 1, 4, 0);
    to->segments = sparse_list(&dim, 2);
    to->indices = sparse_list(&dim, 4);
    good = good && (to->is_sparse || to->size > 0);
    if (good && sparse->order[i] >= sparse->rank) good = !to->is_sparse;
    if (good && sparse->order[i] >= sparse->rank)
      sparse->block_size[sparse->order[i] - sparse->rank] = to->size;
  }
  for (uint32_t i = 0; good && i < map.count; i++) {
    sparse->block[i] = (int)flat_int_at(&map, i);
    good = sparse->block[i] >= 0 && sparse->block[i] < sparse->rank && sparse->block_size[i] > 0;
  }
  if (!good) import_invalid(sparse->im, "the dimensions of the sparse tensor are wrong");
  return good && import_ok(sparse->im);
}

/* Stores the next element at an index in the traversal's dimensions. */
static void store_sparse(sparse_tensor *sparse, const int64_t *index) {
  int64_t full[CLAVE_MAX_RANK], at = 0;
  for (int d = 0; d < sparse->rank; d++) full[d] = index[d];
  for (int i = sparse->rank; i < sparse->n; i++) {
    const int b = i - sparse->rank;
    full[sparse->block[b]] = full[sparse->block[b]] * sparse->block_size[b] + index[i];
  }
  for (int d = 0; d < sparse->rank; d++) {
    if (full[d] < 0 || full[d] >= sparse->sizes[d]) {
      import_invalid(sparse->im, "an index of the sparse tensor is out of range");
      return;
    }
    at = at * sparse->sizes[d] + full[d];
  }
  if (sparse->at >= sparse->stored.size / sparse->element) {
    import_invalid(sparse->im, "the sparse tensor has fewer elements than indices");
    return;
  }
  memcpy(sparse->out + (size_t)at * sparse->element,
         sparse->stored.data + sparse->at++ * sparse->element, sparse->element);
}

/* Traverses the dimensions from `depth` on; position: of the segment in this dimension. */
static void walk_sparse(sparse_tensor *sparse, int depth, int64_t position, int64_t *index) {
  if (sparse->steps-- <= 0) import_invalid(sparse->im, "the segments of a sparse tensor overlap");
  if (!import_ok(sparse->im)) return;
  if (depth == sparse->n) {
    store_sparse(sparse, index);
    return;
  }
  const sparse_dim *dim = &sparse->dims[depth];
  int64_t begin = 0, end = dim->size;
  if (dim->is_sparse) {
    begin = sparse_number(&dim->segments, position);
    end = sparse_number(&dim->segments, position + 1);
    if (position + 1 >= dim->segments.count || begin < 0 || end > dim->indices.count) {
      import_invalid(sparse->im, "a segment of the sparse tensor is out of range");
      return;
    }
  }
  for (int64_t i = begin; i < end && import_ok(sparse->im); i++) {
    index[sparse->order[depth]] = dim->is_sparse ? sparse_number(&dim->indices, i) : i;
    walk_sparse(sparse, depth + 1, dim->is_sparse ? i : position * dim->size + i, index);
  }
}

static const void *expand_sparse(tflite_import *tflite, const operand *tensor,
                                 const flat_table *table, const int64_t *dims, int rank, int64_t n,
                                 span bytes) {
  sparse_tensor sparse = {.im = tflite->im,
                          .rank = rank,
                          .sizes = dims,
                          .element = clave_dtype_size(tensor->dtype),
                          .stored = bytes,
                          .steps = (n + 1) * MAX_SPARSE};
  int64_t index[MAX_SPARSE] = {0};
  if (tensor->type == TFLITE_INT4 || n > INT32_MAX)
    import_unsupported(tflite->im, "a sparse tensor of %lld elements of %s", (long long)n,
                       tflite_dtype_name(tensor->type));
  if (!import_ok(tflite->im) || !read_sparse(&sparse, table)) return NULL;
  sparse.out = import_alloc(tflite->im, (size_t)n + 1, sparse.element);
  if (sparse.out) walk_sparse(&sparse, 0, 0, index);
  return sparse.out;
}

/* ---------------------------------------------------------------- constants */

/* Returns the elements as the program reads them: aligned, a byte for each; BOOL is 0 or 1. */
static const void *constant_elements_of(importer *im, const operand *tensor, int64_t n,
                                        span bytes) {
  const size_t size = clave_dtype_size(tensor->dtype);
  const bool packed = tensor->type == TFLITE_INT4;
  if ((uint64_t)n > bytes.size * 2 ||
      bytes.size != (packed ? ((size_t)n + 1) / 2 : (size_t)n * size)) {
    import_invalid(im, "tensor '%.100s' has %zu bytes for %lld elements", tensor->name, bytes.size,
                   (long long)n);
    return NULL;
  }
  if (!packed && tensor->dtype != CLAVE_BOOL && (uintptr_t)bytes.data % size == 0)
    return bytes.data;
  uint8_t *own = import_alloc(im, (size_t)n + 1, size);
  if (own && !packed) memcpy(own, bytes.data, bytes.size);
  for (int64_t i = 0; own && i < n && (packed || tensor->dtype == CLAVE_BOOL); i++) {
    const int code = (uint8_t)bytes.data[packed ? i / 2 : i] >> (packed ? i % 2 * 4 : 0);
    own[i] = packed ? (uint8_t)((code & 15) - (code & 8) * 2) : code != 0;
  }
  return own;
}

value *tflite_constant(tflite_import *tflite, operand *tensor) {
  importer *im = tflite->im;
  int64_t dims[CLAVE_MAX_RANK];
  int rank = 0;
  const int64_t n = static_shape(im, tensor, dims, &rank);
  if (tensor->type == TFLITE_RESOURCE || !tflite_dtype(tensor->type, &tensor->dtype))
    import_unsupported(im, "a constant of dtype %s", tflite_dtype_name(tensor->type));
  if (n < 0 || !import_ok(im)) return NULL;
  const flat_table sparsity = flat_child(&tensor->table, 6);
  const span bytes = tensor_bytes_of(tflite, tensor);
  const void *data = n == 0        ? ""
                     : sparsity.at ? expand_sparse(tflite, tensor, &sparsity, dims, rank, n, bytes)
                                   : constant_elements_of(im, tensor, n, bytes);
  return import_ok(im) ? value_constant(im, tflite_unique_name(tflite, tensor->name), tensor->dtype,
                                        rank, dims, data)
                       : NULL;
}
