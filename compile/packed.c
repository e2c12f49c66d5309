/* Packed weights embedded in an emitted program: chooses them, for each processor level, and writes
 * their bytes. */
#include "compile/packed.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "interp/run/run.h"

/* Returns the level after kind and version in "cpu 2 x86-64 avx512"; "" if the text is malformed.
 */
static const char *level_of(const char *layout) {
  const char *version = strchr(layout, ' '), *level = version ? strchr(version + 1, ' ') : NULL;
  return level ? level + 1 : "";
}

const char *packed_level(const packed_entry *entry) { return level_of(entry->weight->layout); }

/* ---------------------------------------------------------------- packing */

static bool is_packed_here(const compile_plan *plan) {
  for (size_t i = 0; i < plan->prog->n_packed_weights; i++)
    if (strcmp(plan->prog->packed_weights[i].layout, plan->cpu->info.weight_layout) == 0)
      return true;
  return false;
}

static clave_status pack_method(compile_plan *plan, const compile_options *options,
                                constant_store *store) {
  const session_options packs = {
      .packs = true, .message = options->message, .message_ctx = options->ctx};
  session *session;
  TRY(session_create(plan->executable, &store, &packs, &session));
  clave_status st = session_prepare(session, plan->method, &(method_sizes){.values = plan->sizes});
  session_destroy(session);
  return st ? st : constant_store_keep_packed(store, &plan->made);
}

clave_status packed_make(compile_plan *plan, const compile_options *options) {
  constant_store *store;
  if (options->kernel_dir || !is_packed_here(plan)) return NULL;
  TRY(constant_store_create(plan->prog, plan->cpu, &store));
  clave_status st = pack_method(plan, options, store);
  constant_store_destroy(store);
  return status_while(st, "packing weights");
}

/* ---------------------------------------------------------------- packed weights of a request */

/* True if the packed weight suits the request on some processor. Compares neither the processor
 * level nor the number of bytes, which depends on it. */
static bool packed_is_of(const program_packed_weight *desc, const packed_weight_request *request) {
  return desc->constant == request->constant && desc->kind == request->kind &&
         memcmp(desc->size, request->size, sizeof desc->size) == 0 &&
         tensor_same_view(&desc->view, &request->view);
}

static bool is_for_cpus(const compile_plan *plan, const program_packed_weight *desc) {
  const char *own = plan->cpu->info.weight_layout, *level = level_of(own);
  return strncmp(desc->layout, own, (size_t)(level - own)) == 0;
}

/* Checks a packed weight of a file. Returns "" or a description of the damage. Does not check the
 * size if the processor level is unknown here. */
static const char *find_damage(const program_packed_weight *desc,
                               const packed_weight_request *request) {
  const size_t bytes = plan_scratch(request->pack, level_of(desc->layout));
  if (bytes && bytes != desc->bytes) return "size";
  return program_packed_weight_is_whole(desc) ? "" : "hash";
}

static clave_status packed_append(packed_list *list, int number,
                                  const program_packed_weight *desc) {
  if (!array_reserve(&list->items, &list->capacity, list->n + 1, sizeof *list->items))
    return status_no_memory();
  list->items[list->n++] = (packed_entry){.number = number, .weight = desc, .offset = list->bytes};
  list->bytes += plan_aligned(desc->bytes);
  return NULL;
}

static void report_damaged(const compile_plan *plan, const compile_options *options,
                           const program_packed_weight *desc, const char *why) {
  text text = {0};
  text_printf(&text,
              "the packed weight of constant '%.100s' for '%s' is damaged (%s) and is left out",
              plan->prog->ir.constants.items[desc->constant].name, desc->layout, why);
  if (options->message && !text.failed) options->message(options->ctx, text.data);
  text_free(&text);
}

clave_status packed_add(const compile_plan *plan, const compile_options *options, int number,
                        const packed_weight_request *request, packed_list *to, bool *is_own) {
  *is_own = false;
  if (options->kernel_dir) return NULL; /* the user's kernels may use another layout */
  for (size_t i = 0; i < plan->made.n_packed_weights && !*is_own; i++) {
    if (!packed_is_of(&plan->made.packed_weights[i], request)) continue;
    TRY(packed_append(to, number, &plan->made.packed_weights[i]));
    *is_own = true;
  }
  for (size_t i = 0; i < plan->prog->n_packed_weights; i++) {
    const program_packed_weight *desc = &plan->prog->packed_weights[i];
    const bool is_here = strcmp(desc->layout, plan->cpu->info.weight_layout) == 0;
    if (!packed_is_of(desc, request) || !is_for_cpus(plan, desc) || (is_here && *is_own)) continue;
    const char *why = find_damage(desc, request);
    if (*why) {
      report_damaged(plan, options, desc, why);
      continue;
    }
    TRY(packed_append(to, number, desc));
    *is_own = *is_own || is_here;
  }
  return NULL;
}

/* ---------------------------------------------------------------- writing */

static bool is_first(const packed_list *list, size_t i) {
  for (size_t j = 0; j < i; j++)
    if (strcmp(packed_level(&list->items[j]), packed_level(&list->items[i])) == 0) return false;
  return true;
}

void packed_write_levels(const packed_list *list, text *to) {
  for (size_t i = 0; i < list->n; i++)
    if (is_first(list, i)) text_printf(to, "%s%s", i ? ", " : "", packed_level(&list->items[i]));
}

static clave_status packed_append_bytes(const void *given, file_writer *writer) {
  const packed_list *list = given;
  for (size_t i = 0; i < list->n; i++) {
    TRY(file_writer_append(writer, list->items[i].weight->data, list->items[i].weight->bytes));
    TRY(file_writer_pad(writer, MEMORY_ALIGNMENT));
  }
  return NULL;
}

clave_status packed_write(const packed_list *list, const char *path) {
  return plan_write(path, packed_append_bytes, list);
}
