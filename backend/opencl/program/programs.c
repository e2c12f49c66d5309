/* Programs of a device: one per kernel and options, or per generated source, shared by all streams
 * of the device. They are built before a run or at their first use, and their binaries are kept on
 * disk. Only this file builds programs and creates kernels. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/program/binaries.h"
#include "backend/opencl/program/kernel_program.h"
#include "base/hash.h"
#include "base/number.h"

const char custom_kernel_name[] = "custom";
enum { MAX_LOG = 1 << 24 }; /* bytes; a longer build log is not read */

/* ---------------------------------------------------------------- finding */

static void kernel_program_destroy(cl_device *device, kernel_program *program) {
  if (!program) return;
  if (program->handle && !device_is_lost(device)) device->cl->clReleaseProgram(program->handle);
  free(program->name);
  mutex_destroy(program->lock);
  if (program->generated) free((void *)program->signature.args);
  free(program->arg_names);
  free(program->proven.items);
  free(program->options);
  free(program->source);
  free(program->refusal);
  free(program->child_binary);
  free(program);
}

/* Returns the name that a macro stands for, or NULL if its value is a number. */
static const char *macro_name(const launch_macro *macro) {
  static const char *const codes[CODE_COUNT] = {"INT", "E4M3", "E5M2"};
  if (macro->kind == DEFINE_DTYPE) return dtype_name((dtype)macro->value);
  if (macro->kind == DEFINE_BLOCKS) return block_format_at(macro->value)->name;
  return macro->kind == DEFINE_CODE ? codes[macro->value] : NULL;
}

static clave_status write_options(const cl_device *device, const launch *launch, text *out) {
  const char *precision =
      device->entry->correct_division ? " -cl-fp32-correctly-rounded-divide-sqrt" : "";
  if (launch->fast) precision = " -D FAST -cl-mad-enable -cl-denorms-are-zero";
  /* -w, because clang-based drivers print the number of warnings to stderr */
  text_printf(out, "-cl-std=%s -w%s -D ON_CPU=%d", launch->standard, precision,
              device->entry->traits.is_cpu);
  if (!device->entry->traits.has_fma) text_puts(out, " -D HAS_FMA=0");
  if (!device->entry->traits.has_half) text_puts(out, " -D HAS_HALF=0");
  for (int i = 0; i < launch->n_macros; i++) {
    const launch_macro *macro = &launch->macros[i];
    const char *name = macro_name(macro);
    if (name)
      text_printf(out, " -D %s=%s", macro->name, name);
    else
      text_printf(out, " -D %s=%d", macro->name, macro->value);
  }
  return text_status(out);
}

/* Copies the arguments' names to arg_names, because the generator owns the originals. */
static clave_status copy_names(kernel_program *program, arg_info *args, int n) {
  text names = {0};
  for (int i = 0; i < n; i++) text_append(&names, args[i].name, strlen(args[i].name) + 1);
  program->arg_names = names.data;
  TRY(text_status(&names));
  const char *at = names.data;
  for (int i = 0; i < n; i++) {
    args[i].name = at;
    at += strlen(at) + 1;
  }
  return NULL;
}

static build_options options_of(const cl_device *device, const kernel_program *program) {
  if (strcmp(program->kernel, custom_kernel_name) == 0)
    return (build_options){0}; /* custom: any builtin */
  return quirk_build_options(device->entry, program->kernel);
}

/* Only kernels for GPUs depend on their local size. */
static kernel_request request_of(const cl_device *device, const kernel_program *program) {
  return (kernel_request){.device = device,
                          .signature = &program->signature,
                          .header = options_of(device, program).header,
                          .group = device->entry->traits.is_cpu ? NULL : program->variant.local};
}

static clave_status generate_source(const cl_device *device, const launch *launch,
                                    kernel_program *program) {
  arg_info args[MAX_LAUNCH_ARGS];
  int n = 0;
  text body = {0}, full = {0};
  clave_status st = launch->generate(launch->generate_ctx, &body, args, &n);
  if (!st) st = text_status(&body);
  program->signature =
      (kernel_signature){.stem = launch->stem, .kernel = launch->kernel, .args = args, .n_args = n};
  if (launch->signature) { /* a file with an epilogue: sizes are classified as if it had none */
    program->signature.blocks = launch->signature->blocks;
    program->signature.n_blocks = launch->signature->n_blocks;
  }
  const kernel_request request = request_of(device, program);
  if (!st) st = source_expand(&request, &body, &full);
  text_free(&body);
  program->source = full.data;
  arg_info *copy = calloc((size_t)n + 1, sizeof *copy);
  program->signature.args = copy;
  if (st || !copy) return st ? st : status_no_memory();
  memcpy(copy, args, sizeof *copy * (size_t)n);
  return copy_names(program, copy, n);
}

launch_variant variant_of(const cl_device *device, const size_t global[3], const size_t local[3]) {
  launch_variant variant = {0};
  if (!device->large_grid && device->entry->traits.is_cpu) return variant;
  for (int i = 0; i < 3; i++) {
    variant.local[i] = local[i];
    if (device->large_grid && global[i] >= device->large_grid) variant.is_large = true;
  }
  return variant;
}

static void identify(kernel_program *program) {
  const char *texts[] = {program->stem, program->kernel, program->options,
                         program->source ? program->source : ""};
  uint64_t all[12];
  for (int i = 0; i < 4; i++) hash_bytes_128(texts[i], strlen(texts[i]), all + 2 * i);
  memcpy(all + 8, &program->variant, sizeof program->variant);
  hash_bytes_128(all, sizeof all, program->identity);
}

static clave_status kernel_program_create(cl_device *device, const launch *launch,
                                          const launch_variant *variant, kernel_program **out) {
  kernel_program *program = calloc(1, sizeof *program);
  *out = program;
  if (!program) return status_no_memory();
  program->stem = launch->stem;
  program->kernel = launch->kernel;
  program->variant = *variant;
  program->generated = launch->generate != NULL;
  if (launch->signature && !launch->generate) program->signature = *launch->signature;
  TRY(mutex_create(&program->lock));
  text options = {0};
  clave_status st = write_options(device, launch, &options);
  program->options = options.data;
  if (st) return st;
  if (launch->generate) TRY(generate_source(device, launch, program));
  identify(program);
  return NULL;
}

static kernel_program *find_same(const cl_device *device, const kernel_program *program) {
  for (int i = 0; i < device->n_programs; i++)
    if (memcmp(device->programs[i]->identity, program->identity, sizeof program->identity) == 0)
      return device->programs[i];
  return NULL;
}

static clave_status add_program(cl_device *device, kernel_program *program) {
  if (!array_reserve(&device->programs, &device->cap_programs, (size_t)device->n_programs + 1,
                     sizeof *device->programs))
    return status_no_memory();
  device->programs[device->n_programs++] = program;
  return NULL;
}

clave_status program_find(cl_device *device, const launch *launch, const launch_variant *variant,
                          kernel_program **out) {
  *out = NULL;
  kernel_program *mine;
  clave_status st = kernel_program_create(device, launch, variant, &mine);
  if (!st) {
    mutex_lock(device->lock);
    *out = find_same(device, mine);
    if (!*out) {
      st = add_program(device, mine);
      if (!st) *out = mine;
    }
    mutex_unlock(device->lock);
  }
  if (*out != mine) kernel_program_destroy(device, mine);
  return st;
}

const kernel_signature *program_signature(const kernel_program *program) {
  return &program->signature;
}

/* ---------------------------------------------------------------- building */

/* Copies the first line of the build log that mentions an error, else its first line, else "". */
static void first_error(const char *log, char *line, size_t size) {
  const char *at = strstr(log, "error");
  while (at && at > log && at[-1] != '\n') at--;
  if (!at) at = log + strspn(log, " \n\r\t");
  size_t n = strcspn(at, "\n\r");
  if (n >= size) n = size - 1;
  memcpy(line, at, n);
  line[n] = 0;
}

static clave_status build_error(cl_device *device, const kernel_program *program, cl_program handle,
                                cl_int code) {
  size_t size = 0;
  cl_device_id id = device->entry->id;
  if (device->cl->clGetProgramBuildInfo(handle, id, CL_PROGRAM_BUILD_LOG, 0, NULL, &size) !=
          CL_SUCCESS ||
      size > MAX_LOG)
    size = 0;
  char *log = calloc(1, size + 1), line[256] = "";
  if (log && size &&
      device->cl->clGetProgramBuildInfo(handle, id, CL_PROGRAM_BUILD_LOG, size, log, NULL) ==
          CL_SUCCESS)
    first_error(log, line, sizeof line);
  free(log);
  clave_status st = opencl_refusal(code, "clBuildProgram");
  return status_while(st, "kernel %s of %s.cl (%s): %s", program->kernel, program->stem,
                      program->options, line);
}

/* Builds a program. more: options that follow the program's own, or NULL. Releases `handle` on
 * failure; *code is the driver's result. */
static clave_status build_handle(cl_device *device, const kernel_program *program, const char *more,
                                 cl_program handle, cl_int *code) {
  text options = {0};
  *code = CL_SUCCESS;
  text_printf(&options, "%s%s", program->options, more ? more : "");
  clave_status st = text_status(&options);
  if (!st)
    *code = device->cl->clBuildProgram(handle, 1, &device->entry->id, options.data, NULL, NULL);
  if (*code != CL_SUCCESS) st = build_error(device, program, handle, *code);
  text_free(&options);
  if (st) device->cl->clReleaseProgram(handle);
  return st;
}

/* Marks the program as built for all sessions. All its other members must be set. */
static void publish(kernel_program *program, cl_program handle) {
  __atomic_store_n(&program->refused_items, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&program->handle, handle, __ATOMIC_RELEASE);
}

static void programs_find_key(const cl_device *device, kernel_program *program) {
  const char *more = options_of(device, program).text;
  cache_origin *origin = &program->origin;
  hash_bytes_128(program->source, strlen(program->source), origin->source);
  hash_bytes_128(program->options, strlen(program->options), origin->options);
  memcpy(origin->platform, device->platform_key, sizeof origin->platform);
  memcpy(origin->variant, &program->variant, sizeof origin->variant);
  hash_bytes_128(more ? more : "", more ? strlen(more) : 0, origin->more);
  cache_key(origin, program->key);
}

static void take_proven(kernel_program *program, const cache_entry *entry) {
  for (uint32_t i = 0; i < entry->n_proven; i++) proof_set_add(&program->proven, entry->proven[i]);
  program->saved_proven = program->proven.count;
}

/* Returns the program that the driver makes from the binary, or NULL if it refuses the binary. */
static cl_program load_entry(cl_device *device, const kernel_program *program,
                             const cache_entry *entry) {
  const unsigned char *data = entry->data;
  cl_int code, loaded = CL_SUCCESS;
  cl_program handle = device->cl->clCreateProgramWithBinary(device->context, 1, &device->entry->id,
                                                            &entry->size, &data, &loaded, &code);
  if (opencl_made(handle, code) != CL_SUCCESS) return NULL;
  if (loaded != CL_SUCCESS) {
    device->cl->clReleaseProgram(handle);
    return NULL;
  }
  clave_status st = build_handle(device, program, NULL, handle, &code);
  if (!st) return handle;
  device_note(device, "the driver refused a kernel binary (%s), which is built again",
              status_message(st));
  status_free(st);
  return NULL;
}

/* Publishes the program with its proven classes. Returns false if the driver refuses the binary. */
static bool build_from_entry(cl_device *device, kernel_program *program, const cache_entry *entry) {
  cl_program handle = load_entry(device, program, entry);
  if (!handle) return false;
  take_proven(program, entry);
  program->has_run = true;
  program->is_saved = !device->isolates || entry->driver == device->driver_stamp;
  publish(program, handle);
  return true;
}

void program_load_saved(cl_device *device, kernel_program *program) {
  cache_entry entry;
  bool damaged;
  mutex_lock(program->lock);
  if (device->cache_dir && cache_load(device->cache_dir, program->key, &entry, &damaged)) {
    cl_program handle = entry.size ? load_entry(device, program, &entry) : NULL;
    if (handle) device->cl->clReleaseProgram(handle);
    file_map_close(&entry.map);
  }
  mutex_unlock(program->lock);
}

unsigned char *program_get_binary(cl_device *device, kernel_program *program, size_t *size) {
  unsigned char *data = NULL;
  *size = 0;
  mutex_lock(program->lock);
  clave_status st = program->handle ? binary_read(device, program->handle, &data, size) : NULL;
  const cache_entry entry = {.data = data, .size = *size};
  cl_program handle = !st && *size ? load_entry(device, program, &entry) : NULL;
  if (handle)
    device->cl->clReleaseProgram(handle);
  else
    *size = 0;
  mutex_unlock(program->lock);
  status_free(st);
  return data;
}

/* Uses the binary that a child has sent, at most once. */
static bool use_child_binary(cl_device *device, kernel_program *program) {
  const cache_entry entry = {.data = program->child_binary,
                             .size = program->child_binary_size,
                             .driver = device->driver_stamp};
  const bool good = entry.data && build_from_entry(device, program, &entry);
  free(program->child_binary);
  program->child_binary = NULL;
  return good;
}

/* Uses a binary of the options, unless the cache has one that this driver has accepted before. */
static bool use_packed(cl_device *device, kernel_program *program) {
  cache_entry entry;
  if (device->isolates && device->cache_dir &&
      cache_is_current(device->cache_dir, program->key, device->driver_stamp))
    return false;
  return binaries_find(device, program->key, &entry) && build_from_entry(device, program, &entry);
}

/* Returns true if a usable binary was found. */
static bool build_from_cache(cl_device *device, kernel_program *program) {
  cache_entry entry;
  bool damaged;
  if (use_child_binary(device, program) || use_packed(device, program)) return true;
  if (!device->cache_dir) return false;
  if (!cache_load(device->cache_dir, program->key, &entry, &damaged)) {
    if (damaged)
      device_note(device, "a damaged kernel binary in %s was removed", device->cache_dir);
    return false;
  }
  bool good = entry.size && build_from_entry(device, program, &entry);
  if (!entry.size) take_proven(program, &entry);
  file_map_close(&entry.map);
  if (!good && entry.size) cache_remove(device->cache_dir, program->key);
  return good;
}

/* Builds from source. Sets *refused if the compiler rejects the source. */
static clave_status programs_build_with(cl_device *device, kernel_program *program,
                                        const char *more, bool *refused) {
  cl_int code;
  const char *source = program->source;
  cl_program handle =
      device->cl->clCreateProgramWithSource(device->context, 1, &source, NULL, &code);
  code = opencl_made(handle, code);
  if (code != CL_SUCCESS) return opencl_refusal(code, "clCreateProgramWithSource");
  clave_status st = build_handle(device, program, more, handle, &code);
  *refused = code != CL_SUCCESS;
  if (!st) publish(program, handle);
  return st;
}

static clave_status build_from_source(cl_device *device, kernel_program *program) {
  bool refused = false;
  const build_options options = options_of(device, program);
  clave_status st = programs_build_with(device, program, options.text, &refused);
  if (!options.text || !refused) return st;
  clave_status first = st;
  st = programs_build_with(device, program, NULL, &refused);
  if (!st) device_note(device, "%s: %s", options.refusal, status_message(first));
  status_free(first);
  return st;
}

/* Builds the program unless the driver has refused this source before. */
static clave_status build_text(cl_device *device, kernel_program *program) {
  bool began, skips;
  if (program->refusal && memcmp(program->key, program->refused_key, sizeof program->key) == 0)
    return UNSUPPORTED("%s", program->refusal);
  TRY(trial_begin(device, program, &began, &skips));
  const bool is_loaded = !skips && build_from_cache(device, program);
  clave_status st = is_loaded ? NULL : build_from_source(device, program);
  if (began) trial_end(device, program);
  if (status_code_of(st) != STATUS_UNSUPPORTED) return st;
  free(program->refusal);
  program->refusal = strdup(status_message(st));
  memcpy(program->refused_key, program->key, sizeof program->key);
  __atomic_store_n(&program->refused_items, 1, __ATOMIC_RELAXED);
  return st;
}

/* Loads the program's text, and its key in the cache on disk. */
static clave_status find_source(cl_device *device, kernel_program *program) {
  if (!program->source) {
    text full = {0};
    const kernel_request request = request_of(device, program);
    clave_status st = source_of_kernel(&request, &full);
    program->source = st ? NULL : full.data;
    if (st) {
      text_free(&full);
      return st;
    }
  }
  programs_find_key(device, program);
  return NULL;
}

/* UNSUPPORTED if the driver refused groups of this many work-items. The caller holds the lock. */
static clave_status program_check(const kernel_program *program, size_t items) {
  if (!program_was_refused(program, items)) return NULL;
  return UNSUPPORTED("%s", program->refusal ? program->refusal : "the driver refused it before");
}

clave_status program_usable(kernel_program *program, size_t items) {
  mutex_lock(program->lock);
  clave_status st = program_check(program, items);
  mutex_unlock(program->lock);
  return st;
}

static clave_status build_locked(cl_device *device, kernel_program *program) {
  if (program->handle) return program_check(program, 1);
  TRY(find_source(device, program));
  clave_status st = build_text(device, program);
  if (!program->generated) {
    free(program->source);
    program->source = NULL;
  }
  return st;
}

clave_status program_build_here(cl_device *device, kernel_program *program) {
  mutex_lock(program->lock);
  clave_status st = build_locked(device, program);
  mutex_unlock(program->lock);
  return st;
}

/* ---------------------------------------------------------------- orders */

void program_set_order(const cl_device *device, kernel_program *program,
                       const recorded_launch *launch) {
  mutex_lock(program->lock);
  order *order = &program->wanted;
  order->is_wide = launch->wide;
  order->compute = (uint32_t)launch->compute;
  for (int i = 0; i < 3; i++) order->global[i] = order->local[i] = launch->local[i];
  if (program->variant.is_large)
    order->global[0] =
        (device->large_grid + launch->local[0] - 1) / launch->local[0] * launch->local[0];
  for (int i = 0; i < launch->n_values; i++)
    if (launch->values[i].kind == VALUE_LOCAL && launch->values[i].as.bytes > order->local_bytes)
      order->local_bytes = launch->values[i].as.bytes;
  mutex_unlock(program->lock);
}

void program_set_trial(kernel_program *program, int instruction) {
  mutex_lock(program->lock);
  program->wanted.instruction = (uint32_t)instruction + 1;
  mutex_unlock(program->lock);
}

/* True if a child should build the program. Its key is known. */
static bool is_needed(cl_device *device, kernel_program *program) {
  cache_entry entry;
  if (binaries_find(device, program->key, &entry)) return false;
  if (device->isolates)
    return !trial_is_over(device, program) && !trial_was_refused(device, program);
  return !device->cache_dir || !cache_has(device->cache_dir, program->key);
}

static clave_status write_order(cl_device *device, kernel_program *program, order *order,
                                text *texts) {
  if (program->handle) return NULL;
  TRY(find_source(device, program));
  if (!is_needed(device, program)) return NULL;
  const kernel_signature *signature = program_signature(program);
  *order = program->wanted;
  for (int i = 0; i < 3 && !program->wanted.local[0]; i++) order->global[i] = order->local[i] = 1;
  order->n_args = (uint32_t)signature->n_args;
  for (int i = 0; i < signature->n_args; i++) order->kinds[i] = (uint8_t)signature->args[i].kind;
  const char *parts[] = {program->kernel, program->options, program->source};
  for (int i = 0; i < 3; i++) text_append(texts, parts[i], strlen(parts[i]) + 1);
  return text_status(texts);
}

bool program_order(cl_device *device, kernel_program *program, order *order, text *texts) {
  text_clear(texts);
  mutex_lock(program->lock);
  clave_status st = write_order(device, program, order, texts);
  mutex_unlock(program->lock);
  bool is_ordered = !st && texts->size > 0;
  status_free(st);
  return is_ordered;
}

/* Fills in a program from an order; texts as in program_order. */
static clave_status fill_from_order(const cl_device *device, kernel_program *program,
                                    const order *order, const char *const texts[3]) {
  TRY(mutex_create(&program->lock));
  program->generated = true;
  program->stem = "";
  program->kernel = program->name = strdup(texts[0]);
  program->options = strdup(texts[1]);
  program->source = strdup(texts[2]);
  size_t global[3], local[3];
  for (int i = 0; i < 3; i++) {
    global[i] = (size_t)order->global[i];
    local[i] = (size_t)order->local[i];
  }
  program->variant = variant_of(device, global, local);
  arg_info *args = calloc((size_t)order->n_args + 1, sizeof *args);
  program->signature.args = args;
  if (!program->name || !program->options || !program->source || !args) return status_no_memory();
  for (uint32_t i = 0; i < order->n_args; i++)
    args[i] = (arg_info){.name = "", .kind = (arg_kind)order->kinds[i]};
  program->signature.kernel = program->kernel;
  program->signature.n_args = (int)order->n_args;
  identify(program);
  return NULL;
}

clave_status program_of_order(cl_device *device, const order *order, const char *const texts[3],
                              kernel_program **out) {
  *out = NULL;
  kernel_program *program = calloc(1, sizeof *program);
  clave_status st = program ? fill_from_order(device, program, order, texts) : status_no_memory();
  mutex_lock(device->lock);
  if (!st) *out = find_same(device, program);
  if (!st && !*out) {
    st = add_program(device, program);
    if (!st) *out = program;
  }
  mutex_unlock(device->lock);
  if (*out != program) kernel_program_destroy(device, program);
  return st;
}

clave_status program_create_kernel(cl_device *device, kernel_program *program, cl_kernel *out) {
  cl_int code;
  *out = device->cl->clCreateKernel(program->handle, program->kernel, &code);
  code = opencl_made(*out, code);
  if (code == CL_SUCCESS) return NULL;
  *out = NULL;
  return program_refuse(program, 1,
                        status_while(opencl_refusal(code, "clCreateKernel"), "kernel %s of %s.cl",
                                     program->kernel, program->stem));
}

clave_status program_refuse(kernel_program *program, size_t items, clave_status why) {
  mutex_lock(program->lock);
  if (!program->refused_items || items < program->refused_items) {
    free(program->refusal);
    program->refusal = strdup(status_message(why));
    __atomic_store_n(&program->refused_items, items, __ATOMIC_RELAXED);
  }
  mutex_unlock(program->lock);
  return why;
}

void program_note_replaced(cl_device *device, kernel_program *program) {
  mutex_lock(program->lock);
  if (!program->is_replaced)
    device_note(device, "%s refuses a kernel, so that another one runs (%s)",
                device->base.info.name, program->refusal ? program->refusal : program->kernel);
  program->is_replaced = true;
  mutex_unlock(program->lock);
}

bool program_was_refused(const kernel_program *program, size_t items) {
  const size_t refused = __atomic_load_n(&program->refused_items, __ATOMIC_RELAXED);
  return refused && items >= refused;
}

void programs_destroy(cl_device *device) {
  for (int i = 0; i < device->n_programs; i++) kernel_program_destroy(device, device->programs[i]);
  free(device->programs);
  free(device->blas_proven.items);
}
