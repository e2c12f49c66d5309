/* The methods of a language model: lookup, inputs, runs. */
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "llm/language_model.h"

enum { MAX_CHUNK = 1 << 16 }; /* maximum tokens of one run, whatever the program allows */

/* ---------------------------------------------------------------- inputs of a method */

static bool accepts_one(const clave_tensor_info *info, int axis) {
  return info->min_dims[axis] <= 1 && info->max_dims[axis] >= 1;
}

static bool is_index_type(clave_dtype type) { return type == CLAVE_I64 || type == CLAVE_I32; }

static clave_status read_tokens(const clave_tensor_info *info, llm_method *method) {
  bool fits = !info->is_scalar && is_index_type(info->dtype) &&
              (info->rank == 1 || (info->rank == 2 && accepts_one(info, 0)));
  if (!fits)
    return INVALID("input 0 (%s): expected tokens, I64 (1, L), got %s of rank %d", info->name,
                   clave_dtype_name(info->dtype), info->rank);
  method->tokens_type = info->dtype;
  method->tokens_rank = info->rank;
  method->min_tokens = info->min_dims[info->rank - 1] > 1 ? info->min_dims[info->rank - 1] : 1;
  method->max_tokens =
      info->max_dims[info->rank - 1] < MAX_CHUNK ? info->max_dims[info->rank - 1] : MAX_CHUNK;
  return NULL;
}

static clave_status read_position(const clave_tensor_info *info, llm_method *method) {
  method->position_type = info->dtype;
  if (!is_index_type(info->dtype) || info->rank > 1)
    return INVALID("input 1 (%s): expected the position, an I64 scalar, got %s of rank %d",
                   info->name, clave_dtype_name(info->dtype), info->rank);
  method->position = info->rank == 0                       ? POSITION_SCALAR
                     : info->dims[0] == CLAVE_DYNAMIC      ? POSITION_EACH
                     : info->dims[0] == method->max_tokens ? POSITION_EACH
                                                           : POSITION_VECTOR;
  if (method->position == POSITION_VECTOR && info->dims[0] != 1)
    return INVALID("input 1 (%s) has %lld positions for %lld tokens", info->name,
                   (long long)info->dims[0], (long long)method->max_tokens);
  return NULL;
}

static bool is_logits_type(clave_dtype type) { return clave_dtype_size(type) && type <= CLAVE_F64; }

static clave_status read_logits(const clave_tensor_info *info, llm_method *method) {
  if (info->is_scalar || !is_logits_type(info->dtype) || info->rank < 1)
    return INVALID("output 0 (%s): expected logits, floats (1, V), got %s of rank %d", info->name,
                   clave_dtype_name(info->dtype), info->rank);
  method->n_vocab = info->dims[info->rank - 1];
  method->all_logits = info->rank > 1 && info->max_dims[info->rank - 2] > 1;
  if (method->n_vocab >= 1 && method->n_vocab <= INT32_MAX) return NULL;
  return INVALID("output 0 (%s): expected a fixed number of logits per token, got %lld", info->name,
                 (long long)method->n_vocab);
}

static clave_status llm_methods_read_one(const clave_program *program,
                                         const clave_method_info *info, llm_method *method) {
  clave_tensor_info tokens = {.size = sizeof tokens}, position = tokens, logits = tokens;
  *method = (llm_method){.name = info->name};
  if (info->n_inputs != 2 || info->n_outputs < 1)
    return INVALID(
        "not a language model: expected the inputs tokens and position and the output logits, got "
        "%u inputs and %u outputs",
        info->n_inputs, info->n_outputs);
  TRY(clave_program_input(program, info->name, 0, &tokens));
  TRY(clave_program_input(program, info->name, 1, &position));
  TRY(clave_program_output(program, info->name, 0, &logits));
  TRY(read_tokens(&tokens, method));
  TRY(read_position(&position, method));
  return read_logits(&logits, method);
}

/* ---------------------------------------------------------------- finding methods */

clave_status llm_find_method(const clave_program *program, const char *name, clave_method_info *out,
                             bool *found) {
  clave_program_info info = {.size = sizeof info};
  TRY(clave_program_get_info(program, &info));
  *found = false;
  for (uint32_t i = 0; i < info.n_methods && !*found; i++) {
    TRY(clave_program_method(program, i, out));
    *found = strcmp(out->name, name) == 0;
  }
  return NULL;
}

static clave_status add_method(const clave_program *program, const char *name, llm_method *methods,
                               int *count) {
  clave_method_info info = {.size = sizeof info};
  bool found;
  TRY(llm_find_method(program, name, &info, &found));
  if (!found) return NULL;
  return status_while(llm_methods_read_one(program, &info, &methods[(*count)++]), "method %s",
                      name);
}

clave_status llm_methods_read(const clave_program *program, llm_method methods[LLM_METHODS],
                              int *count) {
  *count = 0;
  TRY(add_method(program, "prefill", methods, count));
  int before = *count;
  TRY(add_method(program, "forward", methods, count));
  if (*count == before)
    return INVALID("not a language model: the program has no method forward(tokens, position)");
  for (int i = 0; i < *count; i++) {
    if (methods[i].n_vocab != methods[0].n_vocab)
      return INVALID("prefill returns %lld logits, and forward %lld: expected equal numbers",
                     (long long)methods[0].n_vocab, (long long)methods[i].n_vocab);
    if (methods[i].min_tokens <= 1) return NULL;
  }
  return INVALID("no method accepts a single token: %s needs at least %lld", methods[before].name,
                 (long long)methods[before].min_tokens);
}

/* Returns the larger of the two middle dimensions, one of which is the context: a cache is (1,
 * heads, context, head_dim) or (1, context, heads, head_dim). Returns 0 if the tensor is not a
 * cache. */
static int64_t cache_length(const clave_tensor_info *info) {
  if (info->rank != 4 || info->max_dims[1] < 1 || info->max_dims[2] < 1) return 0;
  return info->max_dims[1] > info->max_dims[2] ? info->max_dims[1] : info->max_dims[2];
}

/* Zeroes the lengths (by slot) of state tensors that a recurrence reads, because they are not
 * caches. */
static clave_status drop_scanned(const clave_program *program, const char *method,
                                 int64_t *lengths) {
  clave_method_info info = {.size = sizeof info};
  clave_node_info node_info = {.size = sizeof node_info};
  bool found;
  TRY(llm_find_method(program, method, &info, &found));
  for (uint32_t i = 0; i < info.n_nodes; i++) {
    TRY(clave_program_node(program, method, i, &node_info));
    if (strcmp(node_info.op, "ssm_scan") != 0) continue;
    for (uint32_t k = 0; k < node_info.n_reads && k < CLAVE_MAX_OPERANDS; k++)
      lengths[node_info.reads[k]] = 0;
  }
  return NULL;
}

/* Raises *longest to the length of the longest cache. lengths: (n_slots), zeroed by the caller. */
static clave_status find_longest(const clave_program *program, const clave_program_info *info,
                                 const char *method, int64_t *lengths, int64_t *longest) {
  clave_tensor_info tensor_info = {.size = sizeof tensor_info};
  bool any = false;
  for (uint32_t i = 0; i < info->n_state; i++) {
    TRY(clave_program_state(program, i, &tensor_info));
    lengths[tensor_info.slot] = cache_length(&tensor_info);
    any = any || lengths[tensor_info.slot];
  }
  if (any) TRY(drop_scanned(program, method, lengths));
  for (uint32_t i = 0; i < info->n_slots; i++) {
    if (lengths[i] > *longest) *longest = lengths[i];
  }
  return NULL;
}

clave_status llm_methods_context(const clave_program *program, const llm_method *methods, int count,
                                 int64_t *longest) {
  clave_program_info info = {.size = sizeof info};
  *longest = 0;
  TRY(clave_program_get_info(program, &info));
  int64_t *lengths = calloc((size_t)info.n_slots + 1, sizeof *lengths);
  if (!lengths) return status_no_memory();
  clave_status st = find_longest(program, &info, methods[0].name, lengths, longest);
  free(lengths);
  for (int i = 0; i < count && !st && !*longest; i++) {
    if (methods[i].max_tokens > 1 && methods[i].max_tokens < MAX_CHUNK)
      *longest = methods[i].max_tokens;
  }
  return st;
}

const llm_method *llm_methods_choose(const llm_method *methods, int count, size_t *n_tokens) {
  const llm_method *best = NULL;
  size_t most = 0;
  for (int i = 0; i < count; i++) {
    const llm_method *method = &methods[i];
    size_t n = *n_tokens < (size_t)method->max_tokens ? *n_tokens : (size_t)method->max_tokens;
    if (n < (size_t)method->min_tokens || n <= most) continue;
    best = method;
    most = n;
  }
  *n_tokens = most;
  return best;
}

/* ---------------------------------------------------------------- running one sequence */

/* Returns n ids, or the numbers from `first` on, as I64 or I32; NULL if memory is exhausted. */
static void *make_indices(clave_dtype type, const uint32_t *ids, size_t n, size_t first) {
  void *data = calloc(n, sizeof(int64_t));
  for (size_t i = 0; data && i < n; i++) {
    int64_t v = ids ? (int64_t)ids[i] : (int64_t)(first + i);
    if (type == CLAVE_I64) {
      ((int64_t *)data)[i] = v;
    } else {
      ((int32_t *)data)[i] = (int32_t)v;
    }
  }
  return data;
}

static clave_status llm_methods_set_indices(const llm_method *method, clave_session *session,
                                            uint32_t input, clave_tensor shape, void *data) {
  if (!data) return status_no_memory();
  clave_tensor tensor = clave_tensor_make(shape.dtype, shape.rank, shape.dims, data);
  clave_status st = clave_session_set_input(session, method->name, input, &tensor);
  free(data);
  return st;
}

clave_status llm_method_run(const llm_method *method, clave_session *session, const uint32_t *ids,
                            size_t n, size_t position) {
  clave_tensor tokens = {.dtype = method->tokens_type, .rank = method->tokens_rank, .dims = {1, 1}};
  clave_tensor at = {
      .dtype = method->position_type, .rank = method->position != POSITION_SCALAR, .dims = {1}};
  tokens.dims[method->tokens_rank - 1] = (int64_t)n;
  size_t n_positions = method->position == POSITION_EACH ? n : 1;
  at.dims[0] = (int64_t)n_positions;
  TRY(llm_methods_set_indices(method, session, 0, tokens, make_indices(tokens.dtype, ids, n, 0)));
  TRY(llm_methods_set_indices(method, session, 1, at,
                              make_indices(at.dtype, NULL, n_positions, position)));
  return clave_session_run(session, method->name);
}

/* ---------------------------------------------------------------- running several sequences */

/* Doubles `least` until it is at least n, so that few sizes occur and runs can share plans. */
static size_t rounded_up(size_t n, size_t least) {
  while (least < n) least *= 2;
  return least;
}

static void fill_tokens(const llm_method *method, const llm_run_chunk *chunk, int32_t sequence,
                        size_t at, void *tokens, int64_t *positions, int32_t *sequences) {
  for (size_t i = 0; i < chunk->n; i++) {
    if (method->tokens_type == CLAVE_I64) ((int64_t *)tokens)[at + i] = chunk->ids[i];
    if (method->tokens_type == CLAVE_I32) ((int32_t *)tokens)[at + i] = (int32_t)chunk->ids[i];
    positions[at + i] = (int64_t)(chunk->position + i);
    sequences[at + i] = sequence;
  }
}

/* The inputs of a run, owned, in the order of the method's inputs. */
enum { PAGED_INPUTS = 5 };
typedef struct paged_inputs {
  clave_tensor tensor[PAGED_INPUTS]; /* tokens, positions, sequences, page table, rows */
} paged_inputs;

static size_t llm_methods_rows_of(const llm_run_chunk *chunk) {
  return chunk->all_logits ? chunk->n : 1;
}

static clave_status make_paged_inputs(const llm_method *method, const llm_run_chunk *chunks,
                                      size_t n_chunks, size_t max_pages, paged_inputs *in) {
  int64_t n = 0, rows = 0;
  for (size_t i = 0; i < n_chunks; i++) {
    n += (int64_t)chunks[i].n;
    rows += (int64_t)llm_methods_rows_of(&chunks[i]);
  }
  int64_t tokens[] = {1, n}, table[] = {(int64_t)rounded_up(n_chunks, 1), (int64_t)max_pages};
  in->tensor[0] = clave_tensor_make(method->tokens_type, method->tokens_rank,
                                    tokens + 2 - method->tokens_rank, NULL);
  in->tensor[1] = clave_tensor_make(CLAVE_I64, 1, &n, NULL);
  in->tensor[2] = clave_tensor_make(CLAVE_I32, 1, &n, NULL);
  in->tensor[3] = clave_tensor_make(CLAVE_I32, 2, table, NULL);
  in->tensor[4] = clave_tensor_make(CLAVE_I64, 1, &rows, NULL);
  for (int i = 0; i < PAGED_INPUTS; i++) {
    size_t count = 1;
    for (int k = 0; k < in->tensor[i].rank; k++) count *= (size_t)in->tensor[i].dims[k];
    in->tensor[i].data = calloc(count, clave_dtype_size(in->tensor[i].dtype));
    if (!in->tensor[i].data) return status_no_memory();
  }
  return NULL;
}

static void fill_paged_inputs(const llm_method *method, const llm_run_chunk *chunks,
                              size_t n_chunks, const paged_inputs *in) {
  int32_t *table = in->tensor[3].data;
  int64_t *rows = in->tensor[4].data;
  for (size_t i = 0, at = 0; i < n_chunks; i++) {
    const llm_run_chunk *chunk = &chunks[i];
    fill_tokens(method, chunk, (int32_t)i, at, in->tensor[0].data, in->tensor[1].data,
                in->tensor[2].data);
    for (size_t k = 0; k < chunk->n_pages; k++)
      table[i * (size_t)in->tensor[3].dims[1] + k] = (int32_t)chunk->pages[k];
    at += chunk->n;
    for (size_t k = llm_methods_rows_of(chunk); k > 0; k--) *rows++ = (int64_t)(at - k);
  }
}

clave_status llm_method_run_chunks(const llm_method *method, clave_session *session,
                                   const llm_run_chunk *chunks, size_t n_chunks, size_t page_rows) {
  paged_inputs in = {0};
  size_t pages = LLM_FIRST_TOKENS / page_rows;
  for (size_t i = 0; i < n_chunks; i++) pages = rounded_up(chunks[i].n_pages, pages);
  clave_status st = make_paged_inputs(method, chunks, n_chunks, pages, &in);
  if (!st) fill_paged_inputs(method, chunks, n_chunks, &in);
  uint32_t n_inputs = method->accepts_rows ? PAGED_INPUTS : PAGED_INPUTS - 1;
  for (uint32_t i = 0; i < n_inputs && !st; i++)
    st = clave_session_set_input(session, method->name, i, &in.tensor[i]);
  for (int i = 0; i < PAGED_INPUTS; i++) free(in.tensor[i].data);
  return st ? st : clave_session_run(session, method->name);
}

/* ---------------------------------------------------------------- logits */

/* Converts n aligned floats of any type. */
static void llm_methods_widen(clave_dtype type, const void *from, size_t n, float *out) {
  switch (type) {
    case CLAVE_F32:
      memcpy(out, from, n * sizeof *out);
      break;
    case CLAVE_F64:
      for (size_t i = 0; i < n; i++) out[i] = (float)((const double *)from)[i];
      break;
    case CLAVE_F16:
      for (size_t i = 0; i < n; i++) out[i] = f16_to_f32(((const uint16_t *)from)[i]);
      break;
    default:
      for (size_t i = 0; i < n; i++) out[i] = bf16_to_f32(((const uint16_t *)from)[i]);
  }
}

clave_status llm_method_logits(const llm_method *method, clave_session *session, size_t back,
                               float *out) {
  clave_tensor tensor;
  size_t rows = 1, n_vocab = (size_t)method->n_vocab;
  TRY(clave_session_output(session, method->name, 0, &tensor));
  for (int i = 0; i + 1 < tensor.rank; i++) rows *= (size_t)tensor.dims[i];
  if (rows <= back || tensor.dims[tensor.rank - 1] != method->n_vocab)
    return INVALID("method %s: expected %zu rows of %zu logits, got %zu of %lld", method->name,
                   back + 1, n_vocab, rows, (long long)tensor.dims[tensor.rank - 1]);
  const char *row =
      (const char *)tensor.data + (rows - 1 - back) * n_vocab * clave_dtype_size(tensor.dtype);
  llm_methods_widen(tensor.dtype, row, n_vocab, out);
  return NULL;
}
