/* Programs of a device: one per kernel and options (or generated source), shared by its streams,
 * built lazily or ahead, their binaries kept on disk. The only place that builds programs and
 * creates kernels. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/program/binaries.h"
#include "backend/opencl/program/build_messages.h"
#include "base/hash.h"
#include "base/number.h"

struct kernel_program {
  const char *stem, *kernel; /* string literals, or `name` */
  char *name;                /* owned; of an order, else NULL */
  char *arg_names;           /* owned; of a generated program, one behind the other */
  char *options;             /* owned */
  char *source; /* owned; the full text of a generated program, else NULL until built */
  bool generated;
  kernel_signature signature; /* args owned if it is generated */
  launch_variant variant;     /* of its launches */
  uint64_t identity[2];       /* of stem, kernel, options, generated source and variant */
  mutex *lock;                /* of what follows */
  cl_program handle;          /* NULL: not built */
  bool was_refused;           /* once. Atomic */
  char *refusal;              /* owned; why the driver does not take the text of refused_key */
  uint64_t refused_key[2];
  uint64_t key[2];       /* in the cache on disk */
  bool has_run;          /* so that PoCL's binary holds code. Atomic */
  bool is_saved;         /* that binary is in the file, or cannot be */
  bool was_launched;     /* in this process. Atomic */
  proof_set proven;      /* classes of launches that gave right results */
  uint32_t saved_proven; /* how many of them the file has */
  order wanted;          /* the launch to make ready for */
};

const char custom_kernel_name[] = "custom";

/* ---------------------------------------------------------------- finding */

static void program_destroy(cl_device *d, kernel_program *p) {
  if (!p) return;
  if (p->handle) d->cl->clReleaseProgram(p->handle);
  free(p->name);
  mutex_destroy(p->lock);
  if (p->generated) free((void *)p->signature.args);
  free(p->arg_names);
  free(p->proven.items);
  free(p->options);
  free(p->source);
  free(p->refusal);
  free(p);
}

/* What a macro that is no number stands for; NULL: a number. */
static const char *macro_name(const launch_macro *m) {
  static const char *const codes[CODE_COUNT] = {"INT", "E4M3", "E5M2"};
  if (m->kind == DEFINE_DTYPE) return dtype_name((dtype)m->value);
  if (m->kind == DEFINE_BLOCKS) return block_format_at(m->value)->name;
  return m->kind == DEFINE_CODE ? codes[m->value] : NULL;
}

static clave_status write_options(const cl_device *d, const launch *l, text *out) {
  const char *precision =
      d->entry->correct_division ? " -cl-fp32-correctly-rounded-divide-sqrt" : "";
  if (l->fast) precision = " -D FAST -cl-mad-enable -cl-denorms-are-zero";
  /* -w: clang-based drivers print their count of warnings to stderr */
  text_printf(out, "-cl-std=%s -w%s -D ON_CPU=%d", l->standard, precision, d->entry->traits.is_cpu);
  for (int i = 0; i < l->n_macros; i++) {
    const launch_macro *m = &l->macros[i];
    const char *name = macro_name(m);
    if (name)
      text_printf(out, " -D %s=%s", m->name, name);
    else
      text_printf(out, " -D %s=%d", m->name, m->value);
  }
  return text_status(out);
}

/* args: owned by the program, their names by whoever generated it. */
static clave_status copy_names(kernel_program *p, arg_info *args, int n) {
  text names = {0};
  for (int i = 0; i < n; i++) text_append(&names, args[i].name, strlen(args[i].name) + 1);
  p->arg_names = names.data;
  TRY(text_status(&names));
  const char *at = names.data;
  for (int i = 0; i < n; i++) {
    args[i].name = at;
    at += strlen(at) + 1;
  }
  return NULL;
}

static clave_status generate_source(const cl_device *d, const launch *l, kernel_program *p) {
  arg_info args[MAX_LAUNCH_ARGS];
  int n = 0;
  text body = {0}, full = {0};
  clave_status st = l->generate(l->generate_ctx, &body, args, &n);
  if (!st) st = text_status(&body);
  p->signature =
      (kernel_signature){.stem = l->stem, .kernel = l->kernel, .args = args, .n_args = n};
  if (l->signature) { /* a file with an epilogue: sizes are told apart as without */
    p->signature.blocks = l->signature->blocks;
    p->signature.n_blocks = l->signature->n_blocks;
  }
  if (!st) st = source_expand(d, &body, &p->signature, &full);
  text_free(&body);
  p->source = full.data;
  arg_info *copy = calloc((size_t)n + 1, sizeof *copy);
  p->signature.args = copy;
  if (st || !copy) return st ? st : status_no_memory();
  memcpy(copy, args, sizeof *copy * (size_t)n);
  return copy_names(p, copy, n);
}

launch_variant variant_of(const cl_device *d, const size_t global[3], const size_t local[3]) {
  launch_variant v = {0};
  if (!d->large_grid) return v;
  for (int i = 0; i < 3; i++) {
    v.local[i] = local[i];
    if (global[i] >= d->large_grid) v.is_large = true;
  }
  return v;
}

static void identify(kernel_program *p) {
  const char *texts[] = {p->stem, p->kernel, p->options, p->source ? p->source : ""};
  uint64_t all[12];
  for (int i = 0; i < 4; i++) hash_bytes_128(texts[i], strlen(texts[i]), all + 2 * i);
  memcpy(all + 8, &p->variant, sizeof p->variant);
  hash_bytes_128(all, sizeof all, p->identity);
}

static clave_status program_create(cl_device *d, const launch *l, const launch_variant *v,
                                   kernel_program **out) {
  kernel_program *p = calloc(1, sizeof *p);
  *out = p;
  if (!p) return status_no_memory();
  p->stem = l->stem;
  p->kernel = l->kernel;
  p->variant = *v;
  p->generated = l->generate != NULL;
  if (l->signature && !l->generate) p->signature = *l->signature;
  TRY(mutex_create(&p->lock));
  text options = {0};
  clave_status st = write_options(d, l, &options);
  p->options = options.data;
  if (st) return st;
  if (l->generate) TRY(generate_source(d, l, p));
  identify(p);
  return NULL;
}

static kernel_program *find_same(const cl_device *d, const kernel_program *p) {
  for (int i = 0; i < d->n_programs; i++)
    if (memcmp(d->programs[i]->identity, p->identity, sizeof p->identity) == 0)
      return d->programs[i];
  return NULL;
}

static clave_status add_program(cl_device *d, kernel_program *p) {
  if (!array_reserve(&d->programs, &d->cap_programs, (size_t)d->n_programs + 1,
                     sizeof *d->programs))
    return status_no_memory();
  d->programs[d->n_programs++] = p;
  return NULL;
}

clave_status program_find(cl_device *d, const launch *l, const launch_variant *v,
                          kernel_program **out) {
  *out = NULL;
  kernel_program *mine;
  clave_status st = program_create(d, l, v, &mine);
  if (!st) {
    mutex_lock(d->lock);
    *out = find_same(d, mine);
    if (!*out) {
      st = add_program(d, mine);
      if (!st) *out = mine;
    }
    mutex_unlock(d->lock);
  }
  if (*out != mine) program_destroy(d, mine);
  return st;
}

const kernel_signature *program_signature(const kernel_program *p) { return &p->signature; }

/* ---------------------------------------------------------------- building */

/* The first line of the build log that speaks of an error, else the first line; empty if there is
 * none. */
static void first_error(const char *log, char *line, size_t size) {
  const char *at = strstr(log, "error");
  while (at && at > log && at[-1] != '\n') at--;
  if (!at) at = log + strspn(log, " \n\r\t");
  size_t n = strcspn(at, "\n\r");
  if (n >= size) n = size - 1;
  memcpy(line, at, n);
  line[n] = 0;
}

static clave_status build_error(cl_device *d, const kernel_program *p, cl_program handle,
                                cl_int code) {
  size_t size = 0;
  cl_device_id id = d->entry->id;
  if (d->cl->clGetProgramBuildInfo(handle, id, CL_PROGRAM_BUILD_LOG, 0, NULL, &size) != CL_SUCCESS)
    size = 0;
  char *log = calloc(1, size + 1), line[256] = "";
  if (log && size &&
      d->cl->clGetProgramBuildInfo(handle, id, CL_PROGRAM_BUILD_LOG, size, log, NULL) == CL_SUCCESS)
    first_error(log, line, sizeof line);
  free(log);
  clave_status st = opencl_status(code, "clBuildProgram");
  return status_while(st, "kernel %s of %s.cl (%s): %s", p->kernel, p->stem, p->options, line);
}

/* header: of the driver, which builtins.h replaces; NULL: the driver's own. Releases `handle` on
 * failure; code is the driver's. */
static clave_status build_handle(cl_device *d, const kernel_program *p, const char *header,
                                 cl_program handle, cl_int *code) {
  text options = {0};
  *code = CL_SUCCESS;
  text_printf(&options, "%s", p->options);
  if (header) text_printf(&options, " -D OWN_BUILTINS=1 -D %s", header);
  clave_status st = text_status(&options);
  if (!st) *code = d->cl->clBuildProgram(handle, 1, &d->entry->id, options.data, NULL, NULL);
  if (*code != CL_SUCCESS) st = build_error(d, p, handle, *code);
  text_free(&options);
  if (st) d->cl->clReleaseProgram(handle);
  return st;
}

/* From now on other sessions take the program for built: all else of it is in place. */
static void publish(kernel_program *p, cl_program handle) {
  __atomic_store_n(&p->handle, handle, __ATOMIC_RELEASE);
}

static void find_key(const cl_device *d, kernel_program *p) {
  uint64_t all[10];
  hash_bytes_128(p->source, strlen(p->source), all);
  hash_bytes_128(p->options, strlen(p->options), all + 2);
  memcpy(all + 4, d->platform_key, sizeof d->platform_key);
  memcpy(all + 6, &p->variant, sizeof p->variant);
  hash_bytes_128(all, sizeof all, p->key);
}

/* True if the driver took the entry's binary; the program is published with its marks. */
static bool build_from_entry(cl_device *d, kernel_program *p, const cache_entry *e) {
  const unsigned char *data = e->data;
  cl_int code, loaded = CL_SUCCESS;
  cl_program handle = d->cl->clCreateProgramWithBinary(d->context, 1, &d->entry->id, &e->size,
                                                       &data, &loaded, &code);
  if (code != CL_SUCCESS) return false;
  if (loaded != CL_SUCCESS) {
    d->cl->clReleaseProgram(handle);
    return false;
  }
  clave_status st = build_handle(d, p, NULL, handle, &code);
  if (st) {
    device_note(d, "a kernel binary was refused (%s) and is built again", status_message(st));
    status_free(st);
    return false;
  }
  for (uint32_t i = 0; i < e->n_proven; i++) proof_set_add(&p->proven, e->proven[i]);
  p->saved_proven = p->proven.count;
  p->has_run = p->is_saved = true;
  publish(p, handle);
  return true;
}

/* True if a usable binary was there. */
static bool build_from_cache(cl_device *d, kernel_program *p) {
  cache_entry e;
  bool damaged;
  if (binaries_find(d, p->key, &e) && build_from_entry(d, p, &e)) return true;
  if (!d->cache_dir) return false;
  if (!cache_load(d->cache_dir, p->key, &e, &damaged)) {
    if (damaged) device_note(d, "a damaged kernel binary in %s was removed", d->cache_dir);
    return false;
  }
  bool good = build_from_entry(d, p, &e);
  file_map_close(&e.map);
  return good;
}

/* refused: the compiler does not take the source. */
static clave_status build_with(cl_device *d, kernel_program *p, const char *header, bool *refused) {
  cl_int code;
  const char *source = p->source;
  cl_program handle = d->cl->clCreateProgramWithSource(d->context, 1, &source, NULL, &code);
  if (code != CL_SUCCESS) return opencl_status(code, "clCreateProgramWithSource");
  clave_status st = build_handle(d, p, header, handle, &code);
  *refused = code == CL_BUILD_PROGRAM_FAILURE;
  if (!st) publish(p, handle);
  return st;
}

static clave_status build_from_source(cl_device *d, kernel_program *p) {
  bool refused = false;
  bool is_custom = strcmp(p->kernel, custom_kernel_name) == 0; /* may call any builtin */
  const char *header = is_custom ? NULL : quirk_header(d->base.info.platform);
  clave_status st = build_with(d, p, header, &refused);
  if (!header || !refused) return st;
  clave_status first = st;
  st = build_with(d, p, NULL, &refused);
  if (!st) device_note(d, "builtins.h lacks what a kernel needs: %s", status_message(first));
  status_free(first);
  return st;
}

/* Builds the text, unless the driver has refused it. */
static clave_status build_text(cl_device *d, kernel_program *p) {
  if (p->refusal && memcmp(p->key, p->refused_key, sizeof p->key) == 0)
    return UNSUPPORTED("%s", p->refusal);
  clave_status st = build_from_cache(d, p) ? NULL : build_from_source(d, p);
  if (status_code_of(st) != STATUS_UNSUPPORTED) return st;
  free(p->refusal);
  p->refusal = strdup(status_message(st));
  memcpy(p->refused_key, p->key, sizeof p->key);
  __atomic_store_n(&p->was_refused, true, __ATOMIC_RELAXED);
  return st;
}

/* Its text, and where it is in the cache on disk. */
static clave_status find_source(cl_device *d, kernel_program *p) {
  if (!p->source) {
    text full = {0};
    clave_status st = source_of_kernel(d, &p->signature, &full);
    p->source = st ? NULL : full.data;
    if (st) {
      text_free(&full);
      return st;
    }
  }
  find_key(d, p);
  return NULL;
}

static clave_status build_locked(cl_device *d, kernel_program *p) {
  if (p->handle) return NULL;
  TRY(find_source(d, p));
  clave_status st = build_text(d, p);
  if (!p->generated) {
    free(p->source);
    p->source = NULL;
  }
  return st;
}

clave_status program_build(cl_device *d, kernel_program *p) {
  mutex_lock(p->lock);
  clave_status st = build_locked(d, p);
  mutex_unlock(p->lock);
  return st;
}

/* ---------------------------------------------------------------- orders */

void program_want(const cl_device *d, kernel_program *p, const recorded_launch *l) {
  mutex_lock(p->lock);
  order *o = &p->wanted;
  o->is_wide = l->wide;
  o->compute = (uint32_t)l->compute;
  for (int i = 0; i < 3; i++) o->global[i] = o->local[i] = l->local[i];
  if (p->variant.is_large)
    o->global[0] = (d->large_grid + l->local[0] - 1) / l->local[0] * l->local[0];
  for (int i = 0; i < l->n_values; i++)
    if (l->values[i].kind == VALUE_LOCAL && l->values[i].as.bytes > o->local_bytes)
      o->local_bytes = l->values[i].as.bytes;
  mutex_unlock(p->lock);
}

static clave_status write_order(cl_device *d, kernel_program *p, order *o, text *texts) {
  if (p->handle) return NULL;
  TRY(find_source(d, p));
  cache_entry e;
  if (binaries_find(d, p->key, &e) || (d->cache_dir && cache_has(d->cache_dir, p->key)))
    return NULL;
  const kernel_signature *g = program_signature(p);
  *o = p->wanted;
  o->n_args = (uint32_t)g->n_args;
  for (int i = 0; i < g->n_args; i++) o->kinds[i] = (uint8_t)g->args[i].kind;
  const char *parts[] = {p->kernel, p->options, p->source};
  for (int i = 0; i < 3; i++) text_append(texts, parts[i], strlen(parts[i]) + 1);
  return text_status(texts);
}

bool program_order(cl_device *d, kernel_program *p, order *o, text *texts) {
  text_clear(texts);
  mutex_lock(p->lock);
  clave_status st = write_order(d, p, o, texts);
  mutex_unlock(p->lock);
  bool is_ordered = !st && texts->size > 0;
  status_free(st);
  return is_ordered;
}

static clave_status take_order(const cl_device *d, kernel_program *p, const order *o,
                               const char *const texts[3]) {
  TRY(mutex_create(&p->lock));
  p->generated = true;
  p->stem = "";
  p->kernel = p->name = strdup(texts[0]);
  p->options = strdup(texts[1]);
  p->source = strdup(texts[2]);
  size_t global[3], local[3];
  for (int i = 0; i < 3; i++) {
    global[i] = (size_t)o->global[i];
    local[i] = (size_t)o->local[i];
  }
  p->variant = variant_of(d, global, local);
  arg_info *args = calloc((size_t)o->n_args + 1, sizeof *args);
  p->signature.args = args;
  if (!p->name || !p->options || !p->source || !args) return status_no_memory();
  for (uint32_t i = 0; i < o->n_args; i++)
    args[i] = (arg_info){.name = "", .kind = (arg_kind)o->kinds[i]};
  p->signature.kernel = p->kernel;
  p->signature.n_args = (int)o->n_args;
  identify(p);
  return NULL;
}

clave_status program_of_order(cl_device *d, const order *o, const char *const texts[3],
                              kernel_program **out) {
  *out = NULL;
  kernel_program *p = calloc(1, sizeof *p);
  clave_status st = p ? take_order(d, p, o, texts) : status_no_memory();
  mutex_lock(d->lock);
  if (!st) *out = find_same(d, p);
  if (!st && !*out) {
    st = add_program(d, p);
    if (!st) *out = p;
  }
  mutex_unlock(d->lock);
  if (*out != p) program_destroy(d, p);
  return st;
}

clave_status program_kernel(cl_device *d, kernel_program *p, cl_kernel *out) {
  *out = NULL;
  TRY(program_build(d, p));
  cl_int code;
  *out = d->cl->clCreateKernel(p->handle, p->kernel, &code);
  if (code == CL_SUCCESS) return NULL;
  *out = NULL;
  return status_while(opencl_status(code, "clCreateKernel"), "kernel %s of %s.cl", p->kernel,
                      p->stem);
}

/* ---------------------------------------------------------------- saving */

bool program_mark_run(kernel_program *p) {
  return !__atomic_exchange_n(&p->has_run, true, __ATOMIC_RELAXED);
}

bool program_first_launch(kernel_program *p) {
  return !__atomic_exchange_n(&p->was_launched, true, __ATOMIC_RELAXED);
}

bool program_is_proven(kernel_program *p, uint64_t class) {
  mutex_lock(p->lock);
  bool is_proven = proof_set_has(&p->proven, class);
  mutex_unlock(p->lock);
  return is_proven;
}

void program_prove(kernel_program *p, uint64_t class) {
  mutex_lock(p->lock);
  proof_set_add(&p->proven, class);
  mutex_unlock(p->lock);
}

bool program_is_built(const kernel_program *p) {
  return __atomic_load_n(&p->handle, __ATOMIC_ACQUIRE) != NULL;
}

bool program_was_tried(const kernel_program *p) {
  return program_is_built(p) || __atomic_load_n(&p->was_refused, __ATOMIC_RELAXED);
}

/* True if there is a file, of this process or another that built it for us: it is kept, with what
 * we know of it. */
static bool save_again(cl_device *d, kernel_program *p, clave_status *st) {
  cache_entry e;
  bool damaged;
  if (!cache_load(d->cache_dir, p->key, &e, &damaged)) return false;
  for (uint32_t i = 0; i < e.n_proven; i++) proof_set_add(&p->proven, e.proven[i]);
  bool adds = p->proven.count > e.n_proven;
  e.proven = p->proven.items;
  e.n_proven = p->proven.count;
  if (adds) *st = cache_save(d->cache_dir, p->key, &e);
  file_map_close(&e.map);
  return true;
}

static clave_status save_program(cl_device *d, kernel_program *p) {
  clave_status st = NULL;
  if (save_again(d, p, &st)) return st;
  unsigned char *data = NULL;
  size_t size = 0;
  st = binary_read(d, p->handle, &data, &size);
  if (!st && size)
    st = cache_save(
        d->cache_dir, p->key,
        &(cache_entry){
            .data = data, .size = size, .proven = p->proven.items, .n_proven = p->proven.count});
  free(data);
  return st;
}

/* True if it was. */
static bool save_if_new(cl_device *d, kernel_program *p) {
  mutex_lock(p->lock);
  bool has_run = __atomic_load_n(&p->has_run, __ATOMIC_RELAXED);
  clave_status st = NULL;
  bool is_new = has_run && (!p->is_saved || p->proven.count != p->saved_proven);
  if (is_new) {
    st = save_program(d, p);
    p->is_saved = true; /* not tried again when it cannot be */
    p->saved_proven = p->proven.count;
  }
  mutex_unlock(p->lock);
  if (st && !__atomic_exchange_n(&d->cache_noted, true, __ATOMIC_RELAXED))
    device_note(d, "kernel binaries are not kept: %s", status_message(st));
  status_free(st);
  return is_new;
}

bool programs_save_next(cl_device *d) {
  if (!d->cache_dir) return false;
  for (int i = 0;; i++) {
    mutex_lock(d->lock);
    kernel_program *p = i < d->n_programs ? d->programs[i] : NULL;
    mutex_unlock(d->lock);
    if (!p) return false;
    if (save_if_new(d, p)) return true;
  }
}

void programs_save(cl_device *d) {
  while (programs_save_next(d)) continue;
}

/* Of those that have run, whose binaries hold code. */
static clave_status append_program(const cl_device *d, kernel_program *p, text *to) {
  unsigned char *data = NULL;
  size_t size = 0;
  mutex_lock(p->lock);
  clave_status st = p->handle && __atomic_load_n(&p->has_run, __ATOMIC_RELAXED)
                        ? binary_read(d, p->handle, &data, &size)
                        : NULL;
  if (!st && size) {
    binaries_append(
        to, p->key,
        &(cache_entry){
            .data = data, .size = size, .proven = p->proven.items, .n_proven = p->proven.count});
  }
  mutex_unlock(p->lock);
  free(data);
  return st ? st : text_status(to);
}

clave_status programs_append(cl_device *d, text *to) {
  for (int i = 0;; i++) {
    mutex_lock(d->lock);
    kernel_program *p = i < d->n_programs ? d->programs[i] : NULL;
    mutex_unlock(d->lock);
    if (!p) return NULL;
    TRY(append_program(d, p, to));
  }
}

void programs_destroy(cl_device *d) {
  for (int i = 0; i < d->n_programs; i++) program_destroy(d, d->programs[i]);
  free(d->programs);
  free(d->blas_proven.items);
}
