/* Forms of constants that a written program carries: which, for which processors, and their bytes.
 */
#include "compile/packed.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "interp/run/run.h"

/* "cpu 2 x86-64 avx512": behind kind and version; "": it is no such text. */
static const char *level_of(const char *layout) {
  const char *version = strchr(layout, ' '), *level = version ? strchr(version + 1, ' ') : NULL;
  return level ? level + 1 : "";
}

const char *packed_level(const packed_entry *e) { return level_of(e->form->layout); }

/* ---------------------------------------------------------------- made now */

static bool is_packed_here(const compile_plan *k) {
  for (size_t i = 0; i < k->prog->n_forms; i++)
    if (strcmp(k->prog->forms[i].layout, k->cpu->info.weight_layout) == 0) return true;
  return false;
}

static clave_status pack_method(compile_plan *k, const compile_options *o, constant_store *store) {
  const session_options packs = {.packs = true, .message = o->message, .message_ctx = o->ctx};
  session *s;
  TRY(session_create(k->x, &store, &packs, &s));
  clave_status st = session_prepare(s, k->method, &(method_sizes){.values = k->sizes});
  session_destroy(s);
  return st ? st : constant_store_keep_packed(store, &k->made);
}

clave_status packed_make(compile_plan *k, const compile_options *o) {
  constant_store *store;
  if (o->kernel_dir || !is_packed_here(k)) return NULL;
  TRY(constant_store_create(k->prog, k->cpu, &store));
  clave_status st = pack_method(k, o, store);
  constant_store_destroy(store);
  return status_while(st, "packing weights");
}

/* ---------------------------------------------------------------- those of a form */

/* Whatever processor it is for, on which its bytes depend. */
static bool is_of(const program_form *p, const packed_weight_request *f) {
  return p->constant == f->constant && p->kind == f->kind &&
         memcmp(p->size, f->size, sizeof p->size) == 0 && tensor_same_view(&p->view, &f->view);
}

static bool is_for_cpus(const compile_plan *k, const program_form *p) {
  const char *own = k->cpu->info.weight_layout, *level = level_of(own);
  return strncmp(p->layout, own, (size_t)(level - own)) == 0;
}

/* "" or what is wrong with what a file gives for f. A processor that is not known here may read
 * packed weights of any size. */
static const char *find_damage(const program_form *p, const packed_weight_request *f) {
  const size_t bytes = plan_scratch(f->pack, level_of(p->layout));
  if (bytes && bytes != p->bytes) return "size";
  return program_form_is_whole(p) ? "" : "hash";
}

static clave_status append(packed_list *l, int number, const program_form *p) {
  if (!array_reserve(&l->items, &l->capacity, l->n + 1, sizeof *l->items))
    return status_no_memory();
  l->items[l->n++] = (packed_entry){.number = number, .form = p, .offset = l->bytes};
  l->bytes += plan_aligned(p->bytes);
  return NULL;
}

static void tell_damaged(const compile_plan *k, const compile_options *o, const program_form *p,
                         const char *why) {
  text t = {0};
  text_printf(&t, "the packed form of constant '%.100s' for '%s' is damaged (%s): it is left out",
              k->prog->ir.constants.items[p->constant].name, p->layout, why);
  if (o->message && !t.failed) o->message(o->ctx, t.data);
  text_free(&t);
}

clave_status packed_add(const compile_plan *k, const compile_options *o, int number,
                        const packed_weight_request *f, packed_list *to, bool *is_own) {
  *is_own = false;
  if (o->kernel_dir) return NULL; /* the caller's kernels may pack otherwise */
  for (size_t i = 0; i < k->made.n_forms && !*is_own; i++) {
    if (!is_of(&k->made.forms[i], f)) continue;
    TRY(append(to, number, &k->made.forms[i]));
    *is_own = true;
  }
  for (size_t i = 0; i < k->prog->n_forms; i++) {
    const program_form *p = &k->prog->forms[i];
    const bool is_here = strcmp(p->layout, k->cpu->info.weight_layout) == 0;
    if (!is_of(p, f) || !is_for_cpus(k, p) || (is_here && *is_own)) continue;
    const char *why = find_damage(p, f);
    if (*why) {
      tell_damaged(k, o, p, why);
      continue;
    }
    TRY(append(to, number, p));
    *is_own = *is_own || is_here;
  }
  return NULL;
}

/* ---------------------------------------------------------------- all of them */

static bool is_first(const packed_list *l, size_t i) {
  for (size_t j = 0; j < i; j++)
    if (strcmp(packed_level(&l->items[j]), packed_level(&l->items[i])) == 0) return false;
  return true;
}

void packed_write_levels(const packed_list *l, text *to) {
  for (size_t i = 0; i < l->n; i++)
    if (is_first(l, i)) text_printf(to, "%s%s", i ? ", " : "", packed_level(&l->items[i]));
}

static clave_status append_bytes(const void *list, file_writer *w) {
  const packed_list *l = list;
  for (size_t i = 0; i < l->n; i++) {
    TRY(file_writer_append(w, l->items[i].form->data, l->items[i].form->bytes));
    TRY(file_writer_pad(w, MEMORY_ALIGNMENT));
  }
  return NULL;
}

clave_status packed_write(const packed_list *l, const char *path) {
  return plan_write(path, append_bytes, l);
}
