/* Devices: lists all, selects by name, and opens. */
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
  const char **tuned_for; /* identities of their tuning tables */
  int count;              /* includes the CPU backend, which is last */
  int n_opencl;
  int *ranked;         /* owned (n_opencl): the OpenCL devices, best first */
  int n_preferred;     /* the first n_preferred of them outrank the CPU backend */
  const char *hint;    /* why there is no OpenCL device */
  mem_pool *texts;     /* owned */
  unsigned generation; /* identifies the process that found the drivers */
} device_list;

static void api_device_describe(const backend_info *info, int index, clave_device_info *out) {
  *out = (clave_device_info){.kind = info->kind,
                             .name = info->name,
                             .platform = info->platform,
                             .driver = info->driver,
                             .type = info->type,
                             .extensions = info->extensions,
                             .version = info->version,
                             .memory = info->memory,
                             .max_alloc = info->max_alloc,
                             .compute_units = info->compute_units,
                             .clock_mhz = info->clock_mhz,
                             .is_trusted = info->is_trusted,
                             .shares_host_memory = info->shares_host_memory,
                             .index = index};
}

static clave_status note_identity(device_list *list, int index, const backend_info *info) {
  text text = {0};
  clave_status st = tuning_identity(info, &text);
  if (!st) list->tuned_for[index] = mem_pool_strdup(list->texts, text.data, text.size);
  if (!st && !list->tuned_for[index]) st = status_no_memory();
  text_free(&text);
  return st;
}

/* Describes the CPU backend. Copies the texts, since the backend is destroyed. */
static clave_status describe_cpu(device_list *list, clave_device_info *out) {
  backend *cpu;
  TRY(cpu_backend_create(0, &cpu));
  api_device_describe(&cpu->info, CPU_INDEX, out);
  const char **texts[] = {&out->kind, &out->name,       &out->platform, &out->driver,
                          &out->type, &out->extensions, &out->version};
  clave_status st = note_identity(list, list->n_opencl, &cpu->info);
  for (size_t i = 0; i < sizeof texts / sizeof *texts && !st; i++) {
    *texts[i] = mem_pool_strdup(list->texts, *texts[i], strlen(*texts[i]));
    if (!*texts[i]) st = status_no_memory();
  }
  cpu->vt->destroy(cpu);
  return st;
}

static void api_device_free_list(device_list *list) {
  if (!list) return;
  mem_pool_destroy(list->texts);
  free(list->infos);
  free(list->tuned_for);
  free(list->ranked);
  free(list);
}

/* Sets the order in which devices are preferred. On CPUs our backend starts faster than OpenCL and
 * usually runs faster: docs/performance.md. */
static void rank_devices(device_list *list, const backend_info *found) {
  int *ranked = list->ranked;
  for (int i = 0; i < list->n_opencl; i++) {
    int at = i;
    for (; at > 0 && device_rank(&found[i]) > device_rank(&found[ranked[at - 1]]); at--)
      ranked[at] = ranked[at - 1];
    ranked[at] = i;
  }
  int *n = &list->n_preferred;
  while (*n < list->n_opencl && device_outranks_cpus(&found[ranked[*n]])) ++*n;
  list->infos[*n ? ranked[0] : list->n_opencl].is_default = true;
}

/* Finds and describes all devices. folder: the cache folder, or NULL. */
static clave_status api_device_fill_list(device_list *list, const char *folder) {
  const backend_info *found = NULL;
  opencl_keep_files_in(folder);
  list->generation = process_generation();
  TRY(opencl_devices(&found, &list->n_opencl, &list->hint));
  list->count = list->n_opencl + 1;
  list->infos = calloc((size_t)list->count, sizeof *list->infos);
  list->tuned_for = calloc((size_t)list->count, sizeof *list->tuned_for);
  list->ranked = calloc((size_t)list->count, sizeof *list->ranked);
  if (!list->infos || !list->tuned_for || !list->ranked) return status_no_memory();
  TRY(mem_pool_create(&list->texts));
  for (int i = 0; i < list->n_opencl; i++) {
    api_device_describe(&found[i], i, &list->infos[i]);
    TRY(note_identity(list, i, &found[i]));
  }
  TRY(describe_cpu(list, &list->infos[list->n_opencl]));
  rank_devices(list, found);
  return NULL;
}

/* Makes the list. Drivers store their files in CLAVE_CACHE_DIR, whatever cache folder a device is
 * opened with. */
static clave_status api_device_make_list(device_list *list) {
  char *folder;
  TRY(cache_folder(NULL, &folder));
  clave_status st = api_device_fill_list(list, folder);
  free(folder);
  return st;
}

/* Returns the list, made once per process; a thread that loses the race frees its copy. */
static clave_status get_list(const device_list **out) {
  static _Atomic(device_list *) shared;
  device_list *list = atomic_load(&shared), *expected = NULL;
  if (!list) {
    list = calloc(1, sizeof *list);
    if (!list) return status_no_memory();
    clave_status st = api_device_make_list(list);
    if (st) {
      api_device_free_list(list);
      return st;
    }
    if (!atomic_compare_exchange_strong(&shared, &expected, list)) {
      api_device_free_list(list);
      list = expected;
    }
  }
  *out = list;
  return NULL;
}

clave_status clave_devices_count(int *count) {
  OWN_FLOAT_ENV;
  const device_list *list;
  *count = 0;
  TRY(get_list(&list));
  *count = list->count;
  return NULL;
}

static clave_status api_device_write_info(const clave_device_info *own, clave_device_info *out) {
  return sized_write(own, out, SIZED(clave_device_info, index));
}

clave_status clave_devices_get(int index, clave_device_info *info) {
  OWN_FLOAT_ENV;
  const device_list *list;
  TRY(get_list(&list));
  if (index < 0 || index >= list->count)
    return INVALID("index %d is out of range: there are %d devices", index, list->count);
  clave_device_info own = list->infos[index];
  char *folder;
  TRY(cache_folder(NULL, &folder));
  if (folder) own.n_tuned = tuning_count_kept(folder, list->tuned_for[index]);
  free(folder);
  return api_device_write_info(&own, info);
}

const char *clave_devices_hint(void) {
  OWN_FLOAT_ENV;
  const device_list *list;
  clave_status st = get_list(&list);
  if (st) {
    status_free(st);
    return NULL;
  }
  return list->n_opencl ? NULL : list->hint;
}

const char *clave_opencl_library(void) {
  OWN_FLOAT_ENV;
  const device_list *list;
  const char *file = NULL;
  clave_status st = get_list(&list);
  if (!st) st = opencl_library_file(&file);
  status_free(st);
  return file;
}

bool clave_opencl_was_lost(void) { return opencl_was_lost(); }

/* ---------------------------------------------------------------- the choice */

static void append_valid(text *text, const device_list *list) {
  text_printf(text, "valid: cpu");
  if (list->n_opencl) text_printf(text, ", opencl");
  for (int i = 0; i < list->n_opencl; i++)
    text_printf(text, ", opencl:%d (%s)", i, list->infos[i].name);
  if (!list->n_opencl) text_printf(text, "; %s", list->hint ? list->hint : "no OpenCL device");
}

static clave_status bad_device(const device_list *list, const char *item, size_t n) {
  text text = {0};
  append_valid(&text, list);
  clave_status st = text_status(&text);
  if (!st) st = INVALID("unknown device '%.*s'; %s", (int)(n > 200 ? 200 : n), item, text.data);
  text_free(&text);
  return st;
}

static bool contains(const char *haystack, const char *needle, size_t n) {
  for (; *haystack; haystack++)
    if (strncmp(haystack, needle, n) == 0) return true;
  return false;
}

static bool find_opencl(const device_list *list, const char *what, size_t n, int *out) {
  bool digits = n > 0;
  for (size_t i = 0; i < n; i++) digits = digits && is_ascii_digit(what[i]);
  if (digits) {
    long index = n < 9 ? strtol(what, NULL, 10) : -1;
    *out = (int)index;
    return index >= 0 && index < list->n_opencl;
  }
  for (int i = 0; n && i < list->n_opencl; i++) {
    *out = i;
    if (contains(list->infos[i].name, what, n) || contains(list->infos[i].platform, what, n))
      return true;
  }
  return false;
}

/* Selects the device of one item of a list: n characters without outer blanks. */
static clave_status choose_item(const char *item, size_t n, int *out) {
  *out = CPU_INDEX;
  if (n == 3 && memcmp(item, "cpu", 3) == 0) return NULL; /* opens no OpenCL driver */
  const device_list *list;
  TRY(get_list(&list));
  if (n == 6 && memcmp(item, "opencl", 6) == 0 && list->n_opencl) {
    *out = list->ranked[0];
    return NULL;
  }
  if (n > 7 && memcmp(item, "opencl:", 7) == 0 && find_opencl(list, item + 7, n - 7, out))
    return NULL;
  return bad_device(list, item, n);
}

static clave_status api_device_choose(const char *spec, int *chosen, int *count) {
  for (*count = 0;;) {
    spec += strspn(spec, " ");
    size_t n = strcspn(spec, ","), trimmed = n;
    while (trimmed && spec[trimmed - 1] == ' ') trimmed--;
    int index;
    TRY(choose_item(spec, trimmed, &index));
    bool seen = false;
    for (int i = 0; i < *count; i++) seen = seen || chosen[i] == index;
    if (!seen && *count == MAX_BACKENDS - 1 && index != CPU_INDEX)
      return INVALID("a list names more than %d devices", MAX_BACKENDS - 1);
    if (!seen) chosen[(*count)++] = index;
    if (!spec[n]) return NULL;
    spec += n + 1;
  }
}

/* ---------------------------------------------------------------- opening */

/* Fails after a fork: drivers' threads and connections are missing, and calls would hang. */
static clave_status check_drivers(void) {
  const device_list *list;
  TRY(get_list(&list));
  if (list->generation == process_generation()) return NULL;
  return INVALID(
      "OpenCL was in use before this process was forked, and drivers do not work after a fork: "
      "fork before the first use of clave, start a program (exec), or open cpu");
}

clave_status device_check_process(const clave_device *device) {
  if (device->generation == process_generation()) return NULL;
  return INVALID(
      "this process was forked after the device was opened, and threads and drivers do not work "
      "after a fork: open the device and create sessions after the fork");
}

/* Arguments of opening a device. */
typedef struct opening {
  clave_device_options options;
  void *context, *queue; /* the caller's OpenCL objects, or NULL */
} opening;

static clave_status open_one(int index, const opening *with, const char *cache_dir, backend **out) {
  const clave_device_options *options = &with->options;
  if (index == CPU_INDEX) return cpu_backend_create(options->n_threads, out);
  TRY(check_drivers());
  const char *kernels = options->kernel_dir;
  if (!kernels || !*kernels) kernels = getenv("CLAVE_KERNEL_DIR");
  opencl_options co = {.cache_dir = cache_dir,
                       .kernel_dir = kernels && *kernels ? kernels : NULL,
                       .message = options->message,
                       .message_ctx = options->message_ctx,
                       .binaries = options->binaries,
                       .binaries_size = options->binaries_size,
                       .context = with->context,
                       .queue = with->queue};
  return opencl_backend_create(index, &co, out);
}

/* Opens the n chosen backends, the preferred one first, then the CPU backend unless it is among
 * them or no_fallback is set. chosen: has space for one more. */
static clave_status open_chosen(int *chosen, int n, const opening *with, clave_device *device) {
  bool has_cpu = false;
  for (int i = 0; i < n; i++) has_cpu = has_cpu || chosen[i] == CPU_INDEX;
  device->holds = 1;
  device->generation = process_generation();
  device->set.no_fallback = with->options.no_fallback;
  device->message = with->options.message;
  device->message_ctx = with->options.message_ctx;
  if (!has_cpu && !device->set.no_fallback) chosen[n++] = CPU_INDEX;
  TRY(cache_folder(with->options.cache_dir, &device->cache_dir));
  for (int i = 0; i < n; i++) {
    TRY(open_one(chosen[i], with, device->cache_dir, &device->set.backends[i]));
    device->set.count++;
  }
  api_device_describe(&device->set.backends[0]->info, chosen[0], &device->info);
  return device_open_tables(device);
}

static clave_status create_device(int *chosen, int n, const opening *with, clave_device **out) {
  clave_device *device = calloc(1, sizeof *device);
  if (!device) return status_no_memory();
  clave_status st = open_chosen(chosen, n, with, device);
  if (st) {
    clave_device_destroy(device);
    return st;
  }
  *out = device;
  return NULL;
}

static void send_note(const opening *with, text *note) {
  const clave_device_options *options = &with->options;
  if (options->message && note->data) options->message(options->message_ctx, note->data);
  text_free(note);
}

/* Opens the best device that can be opened. Notes say why better ones cannot be, and why there is
 * no OpenCL device. */
static clave_status open_default(const opening *with, clave_device **out) {
  const device_list *list;
  text note = {0};
  int cpu[] = {CPU_INDEX};
  TRY(get_list(&list));
  for (int i = 0; i < list->n_preferred; i++) {
    int chosen[2] = {list->ranked[i]};
    clave_status st = create_device(chosen, 1, with, out);
    if (!st || status_code_of(st) == STATUS_INVALID) return st;
    text_printf(&note, "%s is not used: %s", list->infos[chosen[0]].name, status_message(st));
    status_free(st);
    send_note(with, &note);
  }
  if (!list->n_opencl) {
    text_printf(&note, "running on the CPU backend; %s",
                list->hint ? list->hint : "no OpenCL device");
    send_note(with, &note);
  }
  return create_device(cpu, 1, with, out);
}

static clave_status api_device_read_options(const clave_device_options *given,
                                            clave_device_options *out) {
  TRY(sized_read(given, out, SIZED(clave_device_options, message_ctx)));
  return out->n_threads < 0 ? INVALID("n_threads: expected 0 or more, got %d", out->n_threads)
                            : NULL;
}

clave_status clave_device_open(const char *spec, const clave_device_options *options,
                               clave_device **out) {
  OWN_FLOAT_ENV;
  opening with = {.context = NULL};
  int chosen[MAX_BACKENDS], n;
  *out = NULL;
  TRY(api_device_read_options(options, &with.options));
  const char *from = "";
  if (!spec) {
    spec = getenv("CLAVE_DEVICE");
    from = "CLAVE_DEVICE";
  }
  if (!spec || !*spec) return open_default(&with, out);
  clave_status st = api_device_choose(spec, chosen, &n);
  if (!st) st = create_device(chosen, n, &with, out);
  return st && *from ? status_while(st, "%s", from) : st;
}

clave_status clave_device_create_from_opencl(void *context, void *device, void *queue,
                                             const clave_device_options *options,
                                             clave_device **out) {
  OWN_FLOAT_ENV;
  opening with = {.context = context, .queue = queue};
  int chosen[2];
  const device_list *list;
  *out = NULL;
  TRY(api_device_read_options(options, &with.options));
  if (!context || !device) return INVALID("the OpenCL %s is NULL", context ? "device" : "context");
  TRY(get_list(&list));
  TRY(status_while(opencl_find_device(device, &chosen[0]), "the OpenCL device"));
  return create_device(chosen, 1, &with, out);
}

clave_device *clave_device_retain(clave_device *device) {
  if (device) device->holds++;
  return device;
}

void clave_device_destroy(clave_device *device) {
  if (!device || --device->holds > 0 || device->generation != process_generation()) return;
  device_close_tables(device);
  for (int i = 0; i < device->set.count; i++)
    device->set.backends[i]->vt->destroy(device->set.backends[i]);
  free(device->cache_dir);
  free(device);
}

clave_status clave_device_save_binaries(const clave_device *device, const char *path) {
  backend *backend = device->set.backends[0];
  TRY(device_check_process(device));
  if (strcmp(backend->info.kind, "opencl") == 0) return opencl_save_binaries(backend, path);
  return UNSUPPORTED("expected an OpenCL device, which has kernel binaries, got %s",
                     backend->info.name);
}

clave_status clave_device_get_info(const clave_device *device, clave_device_info *info) {
  clave_device_info own = device->info;
  own.n_tuned = (uint32_t)tuning_count(device->set.backends[0]->tuning);
  return api_device_write_info(&own, info);
}
