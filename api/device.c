/* Devices: the list of all, the choice by name, opening. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "base/ascii.h"
#include "base/float_env.h"
#include "clave_opencl.h"

enum { CPU_INDEX = -1 };

/* ---------------------------------------------------------------- the list */

typedef struct device_list {
  clave_device_info *infos;
  const char **tuned_for; /* what their tuning tables are for */
  int count;              /* with the CPU backend, the last */
  int n_opencl;
  int best;            /* of the OpenCL ones; -1: none */
  int preferred;       /* where none is named: an index in infos */
  const char *hint;    /* why there is none */
  mem_pool *texts;     /* owned */
  unsigned generation; /* of the process that found the drivers */
} device_list;

static void describe(const backend_info *b, int index, clave_device_info *out) {
  *out = (clave_device_info){.kind = b->kind,
                             .name = b->name,
                             .platform = b->platform,
                             .driver = b->driver,
                             .type = b->type,
                             .extensions = b->extensions,
                             .memory = b->memory,
                             .max_alloc = b->max_alloc,
                             .compute_units = b->compute_units,
                             .clock_mhz = b->clock_mhz,
                             .shares_host_memory = b->shares_host_memory,
                             .index = index};
}

static bool is_software_renderer(const backend_info *b) {
  static const char *const names[] = {"llvmpipe", "softpipe", "swrast", "SwiftShader"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strstr(b->name, names[i])) return true;
  return false;
}

enum { RANK_RENDERER, RANK_CPU, RANK_ACCELERATOR, RANK_GPU };
static uint64_t rank_type(const backend_info *b) {
  if (is_software_renderer(b)) return RANK_RENDERER;
  if (strcmp(b->type, "GPU") == 0) return RANK_GPU;
  return strcmp(b->type, "accelerator") == 0 ? RANK_ACCELERATOR : RANK_CPU;
}

/* GPU, then accelerator, then CPU; within a type compute units x clock; software renderers last. */
static uint64_t rank_device(const backend_info *b) {
  uint64_t speed = (uint64_t)b->compute_units * (b->clock_mhz ? b->clock_mhz : 1);
  return (rank_type(b) << 56) | (speed & 0xffffffffffffff);
}

static clave_status note_identity(device_list *l, int index, const backend_info *b) {
  text t = {0};
  clave_status st = tuning_identity(b, &t);
  if (!st) l->tuned_for[index] = mem_pool_strdup(l->texts, t.data, t.size);
  if (!st && !l->tuned_for[index]) st = status_no_memory();
  text_free(&t);
  return st;
}

/* Copies the texts, which go with the backend. */
static clave_status describe_cpu(device_list *l, clave_device_info *out) {
  backend *cpu;
  TRY(cpu_backend_create(0, &cpu));
  describe(&cpu->info, CPU_INDEX, out);
  const char **texts[] = {&out->kind,   &out->name, &out->platform,
                          &out->driver, &out->type, &out->extensions};
  clave_status st = note_identity(l, l->n_opencl, &cpu->info);
  for (size_t i = 0; i < sizeof texts / sizeof *texts && !st; i++) {
    *texts[i] = mem_pool_strdup(l->texts, *texts[i], strlen(*texts[i]));
    if (!*texts[i]) st = status_no_memory();
  }
  cpu->vt->destroy(cpu);
  return st;
}

static void free_list(device_list *l) {
  if (!l) return;
  mem_pool_destroy(l->texts);
  free(l->infos);
  free(l->tuned_for);
  free(l);
}

/* folder: of the cache, or NULL. */
static clave_status fill_list(device_list *l, const char *folder) {
  const backend_info *found = NULL;
  opencl_keep_files_in(folder);
  l->generation = process_generation();
  TRY(opencl_devices(&found, &l->n_opencl, &l->hint));
  l->count = l->n_opencl + 1;
  l->infos = calloc((size_t)l->count, sizeof *l->infos);
  l->tuned_for = calloc((size_t)l->count, sizeof *l->tuned_for);
  if (!l->infos || !l->tuned_for) return status_no_memory();
  TRY(mem_pool_create(&l->texts));
  l->best = -1;
  for (int i = 0; i < l->n_opencl; i++) {
    describe(&found[i], i, &l->infos[i]);
    TRY(note_identity(l, i, &found[i]));
    if (l->best < 0 || rank_device(&found[i]) > rank_device(&found[l->best])) l->best = i;
  }
  TRY(describe_cpu(l, &l->infos[l->n_opencl]));
  /* On a CPU our own backend starts at once, and is faster all in all: docs/performance.md. */
  bool has_better = l->best >= 0 && rank_type(&found[l->best]) >= RANK_ACCELERATOR;
  l->preferred = has_better ? l->best : l->n_opencl;
  l->infos[l->preferred].is_default = true;
  return NULL;
}

/* What drivers keep lies with the binaries of CLAVE_CACHE_DIR, whatever an opened device says. */
static clave_status make_list(device_list *l) {
  char *folder;
  TRY(cache_folder(NULL, &folder));
  clave_status st = fill_list(l, folder);
  free(folder);
  return st;
}

/* Made once a process; a thread that loses the race drops its own. */
static clave_status get_list(const device_list **out) {
  static _Atomic(device_list *) shared;
  device_list *l = atomic_load(&shared), *expected = NULL;
  if (!l) {
    l = calloc(1, sizeof *l);
    if (!l) return status_no_memory();
    clave_status st = make_list(l);
    if (st) {
      free_list(l);
      return st;
    }
    if (!atomic_compare_exchange_strong(&shared, &expected, l)) {
      free_list(l);
      l = expected;
    }
  }
  *out = l;
  return NULL;
}

clave_status clave_devices_count(int *count) {
  OWN_FLOAT_ENV;
  const device_list *l;
  *count = 0;
  TRY(get_list(&l));
  *count = l->count;
  return NULL;
}

static clave_status write_info(const clave_device_info *own, clave_device_info *out) {
  return sized_write(own, out, SIZED(clave_device_info, index));
}

clave_status clave_devices_get(int index, clave_device_info *info) {
  OWN_FLOAT_ENV;
  const device_list *l;
  TRY(get_list(&l));
  if (index < 0 || index >= l->count) return INVALID("device %d of %d", index, l->count);
  clave_device_info own = l->infos[index];
  char *folder;
  TRY(cache_folder(NULL, &folder));
  if (folder) own.n_tuned = tuning_count_kept(folder, l->tuned_for[index]);
  free(folder);
  return write_info(&own, info);
}

const char *clave_devices_hint(void) {
  OWN_FLOAT_ENV;
  const device_list *l;
  clave_status st = get_list(&l);
  if (st) {
    status_free(st);
    return NULL;
  }
  return l->n_opencl ? NULL : l->hint;
}

/* ---------------------------------------------------------------- the choice */

static void append_valid(text *t, const device_list *l) {
  text_printf(t, "valid: cpu");
  if (l->n_opencl) text_printf(t, ", opencl");
  for (int i = 0; i < l->n_opencl; i++) text_printf(t, ", opencl:%d (%s)", i, l->infos[i].name);
  if (!l->n_opencl) text_printf(t, "; %s", l->hint ? l->hint : "no OpenCL device");
}

static clave_status bad_device(const device_list *l, const char *item, size_t n) {
  text t = {0};
  append_valid(&t, l);
  clave_status st = text_status(&t);
  if (!st) st = INVALID("no device '%.*s'; %s", (int)(n > 200 ? 200 : n), item, t.data);
  text_free(&t);
  return st;
}

static bool contains(const char *haystack, const char *needle, size_t n) {
  for (; *haystack; haystack++)
    if (strncmp(haystack, needle, n) == 0) return true;
  return false;
}

static bool find_opencl(const device_list *l, const char *what, size_t n, int *out) {
  bool digits = n > 0;
  for (size_t i = 0; i < n; i++) digits = digits && is_ascii_digit(what[i]);
  if (digits) {
    long index = n < 9 ? strtol(what, NULL, 10) : -1;
    *out = (int)index;
    return index >= 0 && index < l->n_opencl;
  }
  for (int i = 0; n && i < l->n_opencl; i++) {
    *out = i;
    if (contains(l->infos[i].name, what, n) || contains(l->infos[i].platform, what, n)) return true;
  }
  return false;
}

/* One item of a list, n characters without outer blanks. */
static clave_status choose_item(const char *item, size_t n, int *out) {
  *out = CPU_INDEX;
  if (n == 3 && memcmp(item, "cpu", 3) == 0) return NULL; /* opens no OpenCL driver */
  const device_list *l;
  TRY(get_list(&l));
  if (n == 6 && memcmp(item, "opencl", 6) == 0 && l->best >= 0) {
    *out = l->best;
    return NULL;
  }
  if (n > 7 && memcmp(item, "opencl:", 7) == 0 && find_opencl(l, item + 7, n - 7, out)) return NULL;
  return bad_device(l, item, n);
}

static clave_status choose(const char *spec, int *chosen, int *count) {
  for (*count = 0;;) {
    spec += strspn(spec, " ");
    size_t n = strcspn(spec, ","), trimmed = n;
    while (trimmed && spec[trimmed - 1] == ' ') trimmed--;
    int index;
    TRY(choose_item(spec, trimmed, &index));
    bool seen = false;
    for (int i = 0; i < *count; i++) seen = seen || chosen[i] == index;
    if (!seen && *count == MAX_BACKENDS - 1 && index != CPU_INDEX)
      return INVALID("more than %d devices in a list", MAX_BACKENDS - 1);
    if (!seen) chosen[(*count)++] = index;
    if (!spec[n]) return NULL;
    spec += n + 1;
  }
}

/* ---------------------------------------------------------------- opening */

/* Drivers have threads and connections that a forked process lacks; calls would wait for ever. */
static clave_status check_drivers(void) {
  const device_list *l;
  TRY(get_list(&l));
  if (l->generation == process_generation()) return NULL;
  return INVALID(
      "OpenCL was in use before this process was forked, which drivers do not survive: fork before "
      "the first use of clave, start a program (exec), or open cpu");
}

clave_status device_check_process(const clave_device *d) {
  if (d->generation == process_generation()) return NULL;
  return INVALID(
      "this process was forked after the device was opened, which threads and drivers do not "
      "survive: open a device, and make sessions, behind the fork");
}

/* What a device is opened with. */
typedef struct opening {
  clave_device_options options;
  void *context, *queue; /* the caller's, of OpenCL; or NULL */
} opening;

static clave_status open_one(int index, const opening *with, const char *cache_dir, backend **out) {
  const clave_device_options *o = &with->options;
  if (index == CPU_INDEX) return cpu_backend_create(o->n_threads, out);
  TRY(check_drivers());
  const char *kernels = o->kernel_dir;
  if (!kernels || !*kernels) kernels = getenv("CLAVE_KERNEL_DIR");
  opencl_options co = {.cache_dir = cache_dir,
                       .kernel_dir = kernels && *kernels ? kernels : NULL,
                       .message = o->message,
                       .message_ctx = o->message_ctx,
                       .binaries = o->binaries,
                       .binaries_size = o->binaries_size,
                       .context = with->context,
                       .queue = with->queue};
  return opencl_backend_create(index, &co, out);
}

/* The preferred device first; there is room for one more. */
static clave_status open_chosen(int *chosen, int n, const opening *with, clave_device *d) {
  bool has_cpu = false;
  for (int i = 0; i < n; i++) has_cpu = has_cpu || chosen[i] == CPU_INDEX;
  d->holds = 1;
  d->generation = process_generation();
  d->set.no_fallback = with->options.no_fallback;
  d->message = with->options.message;
  d->message_ctx = with->options.message_ctx;
  if (!has_cpu && !d->set.no_fallback) chosen[n++] = CPU_INDEX;
  TRY(cache_folder(with->options.cache_dir, &d->cache_dir));
  for (int i = 0; i < n; i++) {
    TRY(open_one(chosen[i], with, d->cache_dir, &d->set.backends[i]));
    d->set.count++;
  }
  describe(&d->set.backends[0]->info, chosen[0], &d->info);
  return device_open_tables(d);
}

static clave_status create_device(int *chosen, int n, const opening *with, clave_device **out) {
  clave_device *d = calloc(1, sizeof *d);
  if (!d) return status_no_memory();
  clave_status st = open_chosen(chosen, n, with, d);
  if (st) {
    clave_device_destroy(d);
    return st;
  }
  *out = d;
  return NULL;
}

/* Nothing named: with a note if there is no OpenCL device. */
static clave_status default_spec(const clave_device_options *o, const char **out) {
  const device_list *l;
  TRY(get_list(&l));
  *out = l->preferred < l->n_opencl ? "opencl" : "cpu";
  if (l->n_opencl) return NULL;
  text t = {0};
  text_printf(&t, "running on the CPU backend; %s", l->hint ? l->hint : "no OpenCL device");
  if (o->message && t.data) o->message(o->message_ctx, t.data);
  text_free(&t);
  return NULL;
}

static clave_status read_options(const clave_device_options *given, clave_device_options *out) {
  TRY(sized_read(given, out, SIZED(clave_device_options, message_ctx)));
  return out->n_threads < 0 ? INVALID("%d threads", out->n_threads) : NULL;
}

clave_status clave_device_open(const char *spec, const clave_device_options *options,
                               clave_device **out) {
  OWN_FLOAT_ENV;
  opening with = {.context = NULL};
  int chosen[MAX_BACKENDS], n;
  *out = NULL;
  TRY(read_options(options, &with.options));
  const char *from = "";
  if (!spec) {
    spec = getenv("CLAVE_DEVICE");
    from = "CLAVE_DEVICE";
  }
  if (!spec || !*spec) TRY(default_spec(&with.options, &spec));
  clave_status st = choose(spec, chosen, &n);
  if (!st) st = create_device(chosen, n, &with, out);
  return st && *from ? status_while(st, "%s", from) : st;
}

clave_status clave_device_create_from_opencl(void *context, void *device, void *queue,
                                             const clave_device_options *options,
                                             clave_device **out) {
  OWN_FLOAT_ENV;
  opening with = {.context = context, .queue = queue};
  int chosen[2];
  const device_list *l;
  *out = NULL;
  TRY(read_options(options, &with.options));
  if (!context || !device) return INVALID("the OpenCL %s is NULL", context ? "device" : "context");
  TRY(get_list(&l));
  TRY(status_while(opencl_find_device(device, &chosen[0]), "the OpenCL device"));
  return create_device(chosen, 1, &with, out);
}

clave_device *clave_device_retain(clave_device *d) {
  if (d) d->holds++;
  return d;
}

void clave_device_destroy(clave_device *d) {
  if (!d || --d->holds > 0 || d->generation != process_generation()) return;
  device_close_tables(d);
  for (int i = 0; i < d->set.count; i++) d->set.backends[i]->vt->destroy(d->set.backends[i]);
  free(d->cache_dir);
  free(d);
}

clave_status clave_device_save_binaries(const clave_device *d, const char *path) {
  backend *b = d->set.backends[0];
  TRY(device_check_process(d));
  if (strcmp(b->info.kind, "opencl") == 0) return opencl_save_binaries(b, path);
  return UNSUPPORTED("%s has no kernel binaries, which OpenCL devices alone have", b->info.name);
}

clave_status clave_device_get_info(const clave_device *d, clave_device_info *info) {
  clave_device_info own = d->info;
  own.n_tuned = (uint32_t)tuning_count(d->set.backends[0]->tuning);
  return write_info(&own, info);
}
