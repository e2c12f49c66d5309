/* Child processes that build kernels for this one. A child has one order at a time, and the longest
 * sources go first. A child that is silent or sends nonsense is ended. */
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/device/driver_folder.h"
#include "backend/opencl/program/build_messages.h"
#include "base/clock.h"
#include "base/process.h"

enum {
  MAX_BUILDERS = 16,
  GREETING_MS = 10000,
  ORDER_MS = 60000,
  SAVE_MS = 60000,
  LEAVE_MS = 100,
  MOMENT_MS = 50
};
enum { NO_ORDER = -1 };

typedef struct builder {
  child *process; /* owned; NULL if there is none */
  bool is_greeted, is_saving;
  int order;        /* its current order, or NO_ORDER */
  int64_t deadline; /* ns: time by which it must send a message; INT64_MAX if there is no limit */
} builder;

struct builders {
  mutex *lock;     /* protects all members but n_alive */
  char *helper;    /* owned path */
  bool is_useless; /* there is no helper, or it is another version or program */
  bool is_unsaved; /* children have not yet been told to save: the run that waits for the kernels
                      goes first */
  builder all[MAX_BUILDERS];
  int n_alive; /* atomic */
};

/* The programs to build in one call. */
typedef struct batch {
  cl_device *device;
  kernel_program **programs; /* programs to order, longest source first */
  size_t *lengths;
  int n, next, done;
  int others; /* further steps that the caller does, for progress */
  build_progress progress;
  void *ctx;
} batch;

clave_status builders_create(builders **out) {
  *out = calloc(1, sizeof **out);
  if (!*out) return status_no_memory();
  for (int i = 0; i < MAX_BUILDERS; i++) (*out)->all[i].order = NO_ORDER;
  return mutex_create(&(*out)->lock);
}

static void end_builder(builders *builders, builder *one, int timeout_ms) {
  if (!one->process) return;
  child_end(one->process, timeout_ms);
  *one = (builder){.order = NO_ORDER};
  __atomic_fetch_sub(&builders->n_alive, 1, __ATOMIC_RELAXED);
}

void builders_destroy(builders *builders) {
  if (!builders) return;
  for (int i = 0; i < MAX_BUILDERS; i++)
    if (builders->all[i].process) child_hang_up(builders->all[i].process);
  for (int i = 0; i < MAX_BUILDERS; i++) end_builder(builders, &builders->all[i], LEAVE_MS);
  mutex_destroy(builders->lock);
  free(builders->helper);
  free(builders);
}

/* ---------------------------------------------------------------- starting */

static void set_deadline(builder *one, int timeout_ms) {
  one->deadline = timeout_ms < 0 ? INT64_MAX : clock_ns() + (int64_t)timeout_ms * 1000000;
}

/* True if all processes share one folder of driver files. */
static bool has_shared_files(void) {
  const char *given = getenv(quirk_files_variable());
  return driver_folder_path() || (given && *given);
}

/* Starts the helper. CLAVE_HELPER=off keeps it from starting builders, whatever program it is. */
static clave_status start_helper(const char *helper, child **out) {
  static const char *const arguments[] = {"clave", "build-kernels", NULL};
  const char *files = driver_folder_path();
  text setting = {0};
  if (files) text_printf(&setting, "%s=%s", quirk_files_variable(), files);
  clave_status st = text_status(&setting);
  const char *const settings[] = {"CLAVE_HELPER=off", setting.data, NULL};
  if (!st) st = child_start(helper, arguments, settings, out);
  text_free(&setting);
  return st;
}

static bool start_builder(cl_device *device, builder *one) {
  builders *builders = device->builders;
  const char *folder = device->cache_dir ? device->cache_dir : "";
  clave_status st = start_helper(builders->helper, &one->process);
  builders->is_useless = st != NULL;
  status_free(st);
  if (builders->is_useless) return false;
  __atomic_fetch_add(&builders->n_alive, 1, __ATOMIC_RELAXED);
  greeting greeting;
  build_greeting(device, device->index, &greeting);
  set_deadline(one, GREETING_MS);
  builders->is_useless = !message_send(child_socket(one->process), MESSAGE_GREETING, 0, &greeting,
                                       sizeof greeting, folder, strlen(folder));
  return !builders->is_useless;
}

static bool find_own_helper(builders *builders) {
  if (!builders->helper && !builders->is_useless) builders->helper = find_helper();
  if (!builders->helper || !has_shared_files()) builders->is_useless = true;
  return !builders->is_useless;
}

/* ---------------------------------------------------------------- orders */

/* Reports progress. Returns false if the caller says to stop. */
static bool report_batch(const batch *batch) {
  return !batch->progress || batch->progress(batch->ctx, batch->done, batch->n + batch->others);
}

/* Ends a builder. If it never sent its greeting, no further builder is started. */
static void drop(batch *batch, builder *one) {
  builders *builders = batch->device->builders;
  if (!one->is_greeted) builders->is_useless = true;
  if (one->order != NO_ORDER) batch->done++;
  end_builder(builders, one, 0);
}

/* Sends the builder the next order that is still needed. Ends a builder that does not accept it. */
static void give_order(batch *batch, builder *one) {
  order order;
  text texts = {0};
  bool good = true;
  while (good && batch->next < batch->n && one->order == NO_ORDER) {
    int i = batch->next++;
    if (!program_order(batch->device, batch->programs[i], &order, &texts)) {
      batch->done++;
      continue;
    }
    good = message_send(child_socket(one->process), MESSAGE_ORDER, (uint32_t)i, &order,
                        sizeof order, texts.data, texts.size);
    one->order = i;
    if (one->is_greeted) set_deadline(one, ORDER_MS);
  }
  text_free(&texts);
  if (!good) drop(batch, one);
}

static bool is_same_library(const batch *batch, const char *payload, uint32_t size) {
  greeting mine, its;
  if (size != sizeof its) return false;
  memcpy(&its, payload, sizeof its);
  build_greeting(batch->device, batch->device->index, &mine);
  return memcmp(&mine, &its, sizeof its) == 0;
}

/* Receives one message. Returns false if the builder is of no more use. */
static bool take_message(batch *batch, builder *one) {
  message message;
  char *payload;
  if (!message_receive(child_socket(one->process), 0, &message, &payload)) return false;
  bool good = false;
  if (message.kind == MESSAGE_READY && !one->is_greeted) {
    good = one->is_greeted = is_same_library(batch, payload, message.size);
    batch->device->builders->is_useless |= !good;
    set_deadline(one, one->order == NO_ORDER ? -1 : ORDER_MS);
  } else if (message.kind == MESSAGE_BUILT && one->is_greeted) {
    good = one->order != NO_ORDER && message.number == (uint32_t)one->order;
  } else if (message.kind == MESSAGE_SAVED && one->is_saving) {
    good = true;
    one->is_saving = false;
    if (one->order == NO_ORDER) set_deadline(one, -1);
  }
  free(payload);
  if (!good || message.kind != MESSAGE_BUILT) return good;
  one->order = NO_ORDER;
  set_deadline(one, -1);
  batch->done++;
  give_order(batch, one);
  return true;
}

/* Receives one message from any builder. If `waits`, waits until one arrives, a deadline passes, or
 * MOMENT_MS is over. Returns false if there is no builder, or no message without waiting. */
static bool hear_one(batch *batch, bool waits) {
  builders *builders = batch->device->builders;
  int sockets[MAX_BUILDERS], n = 0;
  int64_t first = INT64_MAX, now = clock_ns();
  for (int i = 0; i < MAX_BUILDERS; i++) {
    builder *one = &builders->all[i];
    if (one->process && one->deadline <= now) drop(batch, one);
    sockets[i] = one->process ? child_socket(one->process) : -1;
    if (!one->process) continue;
    n++;
    if (one->deadline < first) first = one->deadline;
  }
  if (n == 0) return false;
  waits = waits && first != INT64_MAX;
  int wait_ms = waits ? (int)((first - now) / 1000000) + 1 : 0;
  if (wait_ms > MOMENT_MS) wait_ms = MOMENT_MS;
  int heard = socket_wait(sockets, MAX_BUILDERS, wait_ms);
  if (heard >= 0 && !take_message(batch, &builders->all[heard])) drop(batch, &builders->all[heard]);
  return heard >= 0 || waits;
}

/* ---------------------------------------------------------------- a batch */

/* Waits while another session's batch is built. Returns false if progress says to stop. */
static bool lock_builders(builders *builders, const batch *batch) {
  while (!mutex_lock_within(builders->lock, MOMENT_MS))
    if (!report_batch(batch)) return false;
  return true;
}

/* Selects the programs that must be built, longest source first. False if there are none. */
static bool choose_programs(batch *batch, kernel_program *const *programs, int n) {
  order order;
  text texts = {0};
  for (int i = 0; i < n; i++) {
    if (!program_order(batch->device, programs[i], &order, &texts)) continue;
    int at = batch->n++;
    for (; at > 0 && batch->lengths[at - 1] < texts.size; at--) {
      batch->lengths[at] = batch->lengths[at - 1];
      batch->programs[at] = batch->programs[at - 1];
    }
    batch->lengths[at] = texts.size;
    batch->programs[at] = programs[i];
  }
  text_free(&texts);
  return batch->n > 0;
}

/* Builds the batch with up to `most` builders; further ones stay idle. */
static void run_batch(batch *batch, int most) {
  builders *builders = batch->device->builders;
  for (int i = 0; i < MAX_BUILDERS && i < most && batch->next < batch->n; i++) {
    builder *one = &builders->all[i];
    if (!one->process && (builders->is_useless || !start_builder(batch->device, one))) {
      end_builder(builders, one, 0);
      continue;
    }
    give_order(batch, one);
  }
  bool wanted = true;
  while (wanted && batch->done < batch->n && hear_one(batch, true)) wanted = report_batch(batch);
  for (int i = 0; i < MAX_BUILDERS && !wanted; i++)
    if (builders->all[i].order != NO_ORDER) end_builder(builders, &builders->all[i], 0);
}

static void ask_to_save(const cl_device *device) {
  if (!device->builders->is_unsaved) return;
  device->builders->is_unsaved = false;
  for (int i = 0; i < MAX_BUILDERS && device->cache_dir; i++) {
    builder *one = &device->builders->all[i];
    if (!one->process || one->is_saving) continue;
    one->is_saving = message_send(child_socket(one->process), MESSAGE_SAVE, 0, "", 0, "", 0);
    if (!one->is_saving) end_builder(device->builders, one, 0);
  }
}

int builders_build(cl_device *device, kernel_program *const *programs, int n, int most,
                   build_progress progress, void *ctx) {
  builders *builders = device->builders;
  if (!builders) return 0;
  batch batch = {.device = device,
                 .others = n,
                 .programs = calloc((size_t)n + 1, sizeof *batch.programs),
                 .lengths = calloc((size_t)n + 1, sizeof *batch.lengths),
                 .progress = progress,
                 .ctx = ctx};
  if (batch.programs && batch.lengths && lock_builders(builders, &batch)) {
    if (find_own_helper(builders) && choose_programs(&batch, programs, n)) {
      run_batch(&batch, most);
      builders->is_unsaved = true;
    }
    mutex_unlock(builders->lock);
  }
  free(batch.programs);
  free(batch.lengths);
  return batch.n;
}

/* ---------------------------------------------------------------- after the build */

static bool any_saves(const builders *builders) {
  bool any = false;
  for (int i = 0; i < MAX_BUILDERS; i++) any = any || builders->all[i].is_saving;
  return any;
}

void builders_wait(cl_device *device) {
  builders *builders = device->builders;
  if (!builders || !__atomic_load_n(&builders->n_alive, __ATOMIC_RELAXED)) return;
  batch none = {.device = device};
  mutex_lock(builders->lock);
  ask_to_save(device);
  for (int i = 0; i < MAX_BUILDERS; i++)
    if (builders->all[i].is_saving) set_deadline(&builders->all[i], SAVE_MS);
  while (any_saves(builders) && hear_one(&none, true)) continue;
  mutex_unlock(builders->lock);
}

void builders_reap(cl_device *device) {
  builders *builders = device->builders;
  if (!builders || !__atomic_load_n(&builders->n_alive, __ATOMIC_RELAXED)) return;
  batch none = {.device = device};
  if (!mutex_try_lock(builders->lock)) return; /* another session is building kernels */
  ask_to_save(device);
  while (hear_one(&none, false)) continue;
  mutex_unlock(builders->lock);
}
