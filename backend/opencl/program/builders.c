/* Child processes that build kernels for this process. A child has one order at a time, and the
 * longest sources are ordered first. A child that does not answer or sends invalid messages is
 * ended. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/device/driver_folder.h"
#include "backend/opencl/program/build_messages.h"
#include "base/clock.h"
#include "base/process.h"

enum {
  MAX_BUILDERS = 16,
  MAX_TRIAL_CHILDREN = 4, /* maximum children for a driver that builds in parallel, */
  PROGRAMS_PER_CHILD = 4, /* and programs per child, because each child opens the device */
  SLOW_BYTES = 256 << 10, /* a source of this size may take twice as long */
  SLOW_BUILDS = 20,       /* or any source this many times as long as the slowest build so far */
  MIN_MS = 10000,         /* minimum time for a source, even after others took too long */
  GREETING_MS = 10000,
  SAVE_MS = 60000,
  CRASH_MS = 2000, /* time in which the system ends a process that has crashed */
  LEAVE_MS = 100,
  MOMENT_MS = 50
};
enum { NO_ORDER = -1 };

typedef struct builder {
  child *process; /* owned; NULL if none exists */
  bool is_greeted, is_saving;
  int order;        /* its current order, or NO_ORDER */
  int order_ms;     /* time for that order */
  int64_t begun;    /* ns: when it was given the order */
  int64_t deadline; /* ns: time by which it must send a message; INT64_MAX: no limit */
} builder;

struct builders {
  mutex *lock;     /* protects all members but n_alive */
  char *helper;    /* owned path */
  bool is_useless; /* there is no helper, or the helper is another version or program */
  bool is_unsaved; /* children must still be told to save, after the waiting run */
  int slowest_ms;  /* time of the slowest order so far */
  int n_late;      /* orders that took too long: each halves the time limit of others */
  builder all[MAX_BUILDERS];
  int n_alive; /* atomic */
};

/* The programs to build in one call. */
typedef struct batch {
  cl_device *device;
  kernel_program **programs; /* (n) longest source first; programs to retry are appended */
  size_t *lengths;
  int n, next, done;
  int others; /* further steps, which the caller does; counted in progress */
  build_progress progress;
  void *ctx;
} batch;

clave_status builders_create(builders **out) {
  *out = calloc(1, sizeof **out);
  if (!*out) return status_no_memory();
  for (int i = 0; i < MAX_BUILDERS; i++) (*out)->all[i].order = NO_ORDER;
  return mutex_create(&(*out)->lock);
}

/* Ends the builder's process. Returns its exit status, as child_end does. */
static int end_builder(builders *builders, builder *one, int timeout_ms) {
  if (!one->process) return 0;
  const int ended = child_end(one->process, timeout_ms);
  *one = (builder){.order = NO_ORDER};
  __atomic_fetch_sub(&builders->n_alive, 1, __ATOMIC_RELAXED);
  return ended;
}

void builders_destroy(builders *builders) {
  if (!builders) return;
  for (int i = 0; i < MAX_BUILDERS; i++)
    if (builders->all[i].process) child_hang_up(builders->all[i].process);
  for (int i = 0; i < MAX_BUILDERS; i++) (void)end_builder(builders, &builders->all[i], LEAVE_MS);
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

/* Starts the helper, with CLAVE_HELPER=off, so that it starts no builders itself. */
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

static bool find_own_helper(const cl_device *device) {
  builders *builders = device->builders;
  if (!builders->helper && !builders->is_useless) builders->helper = find_helper();
  if (!builders->helper || (!device->isolates && !has_shared_files())) builders->is_useless = true;
  return !builders->is_useless;
}

/* ---------------------------------------------------------------- orders */

/* Reports progress. Returns false if the caller wants to stop. */
static bool report_batch(const batch *batch) {
  return !batch->progress || batch->progress(batch->ctx, batch->done, batch->n + batch->others);
}

/* Refuses a program whose trial ended the child, or lets another child try it, without its binary
 * if the cache had one. late_s: seconds in which the child did not answer, or 0. */
static void judge_trial(batch *batch, kernel_program *program, int late_s, int ended) {
  char reason[128];
  const bool left = !late_s && !ended; /* the child was idle and left before it got the order */
  const bool lasts = late_s || is_crash(ended);
  describe_trial_end(late_s, ended, reason, sizeof reason);
  if (!left && program_fail_trial(batch->device, program, reason, lasts)) return;
  if (program_may_retry(program)) batch->programs[batch->n++] = program;
}

/* Ends a builder and judges the program that it was trying. If it never sent its greeting, no
 * further builder is started. */
static void drop(batch *batch, builder *one, bool is_late) {
  builders *builders = batch->device->builders;
  const int order = one->order;
  const bool judges = batch->device->isolates && one->is_greeted && order != NO_ORDER;
  const int late_s = judges && is_late ? one->order_ms / 1000 : 0;
  if (!one->is_greeted) builders->is_useless = true;
  if (late_s) builders->n_late++;
  const int ended = end_builder(builders, one, judges && !is_late ? CRASH_MS : 0);
  if (order != NO_ORDER) batch->done++;
  if (judges) judge_trial(batch, batch->programs[order], late_s, ended);
}

/* Returns the time limit, in ms, for building a source of this size. */
static int order_time(const cl_device *device, size_t bytes) {
  const builders *builders = device->builders;
  int64_t ms = (int64_t)device->build_timeout_s * 1000;
  ms += ms * (int64_t)(bytes / SLOW_BYTES);
  for (int i = 0; i < builders->n_late && ms > MIN_MS; i++) ms /= 2;
  const int64_t slow = (int64_t)builders->slowest_ms * SLOW_BUILDS;
  if (ms < slow) ms = slow;
  return ms < INT_MAX ? (int)ms : INT_MAX;
}

static void begin_order(builder *one) {
  one->begun = clock_ns();
  set_deadline(one, one->order_ms);
}

/* Sends the builder the next order that is still needed. Ends a builder that does not accept it. */
static void send_order(batch *batch, builder *one) {
  order order;
  text texts = {0};
  bool good = true;
  while (good && batch->next < batch->n && one->order == NO_ORDER) {
    int i = batch->next++;
    if (!program_order(batch->device, batch->programs[i], &order, &texts) ||
        sizeof order + texts.size > MAX_ORDER_BYTES) {
      batch->done++;
      continue;
    }
    const message_kind kind = batch->device->isolates ? MESSAGE_TRIAL : MESSAGE_ORDER;
    good = message_send(child_socket(one->process), kind, (uint32_t)i, &order, sizeof order,
                        texts.data, texts.size);
    one->order = i;
    one->order_ms = order_time(batch->device, texts.size);
    if (one->is_greeted) begin_order(one);
  }
  text_free(&texts);
  if (!good) drop(batch, one, false);
}

static bool is_same_library(const batch *batch, const char *payload, uint32_t size) {
  greeting mine, its;
  if (size != sizeof its) return false;
  memcpy(&its, payload, sizeof its);
  build_greeting(batch->device, batch->device->index, &mine);
  return memcmp(&mine, &its, sizeof its) == 0;
}

static void end_order(batch *batch, builder *one, const char *binary, size_t size) {
  builders *builders = batch->device->builders;
  const int took_ms = (int)((clock_ns() - one->begun) / 1000000);
  if (took_ms > builders->slowest_ms) builders->slowest_ms = took_ms;
  if (batch->device->isolates)
    program_accepted(batch->device, batch->programs[one->order], binary, size);
  one->order = NO_ORDER;
  set_deadline(one, -1);
  batch->done++;
}

/* Receives and handles one message. Returns false if the builder can no longer be used. */
static bool handle_message(batch *batch, builder *one) {
  message message;
  char *payload;
  if (!message_receive(child_socket(one->process), 0, &message, &payload)) return false;
  bool good = false;
  if (message.kind == MESSAGE_READY && !one->is_greeted) {
    good = one->is_greeted = is_same_library(batch, payload, message.size);
    batch->device->builders->is_useless |= !good;
    if (one->order == NO_ORDER)
      set_deadline(one, -1);
    else
      begin_order(one);
  } else if (message.kind == MESSAGE_BUILT && one->is_greeted) {
    good = one->order != NO_ORDER && message.number == (uint32_t)one->order;
  } else if (message.kind == MESSAGE_SAVED && one->is_saving) {
    good = true;
    one->is_saving = false;
    if (one->order == NO_ORDER) set_deadline(one, -1);
  }
  const bool is_built = good && message.kind == MESSAGE_BUILT;
  if (is_built) end_order(batch, one, payload, message.size);
  free(payload);
  if (is_built) send_order(batch, one);
  return good;
}

/* Receives one message from any builder. If `waits`, waits for it until a deadline or MOMENT_MS
 * have passed. Returns false if there is no builder or, without waiting, no message. */
static bool receive_one(batch *batch, bool waits) {
  builders *builders = batch->device->builders;
  int sockets[MAX_BUILDERS], n = 0;
  int64_t first = INT64_MAX, now = clock_ns();
  for (int i = 0; i < MAX_BUILDERS; i++) {
    builder *one = &builders->all[i];
    if (one->process && one->deadline <= now) drop(batch, one, true);
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
  if (heard >= 0 && !handle_message(batch, &builders->all[heard]))
    drop(batch, &builders->all[heard], false);
  return heard >= 0 || waits;
}

/* ---------------------------------------------------------------- a batch */

/* Waits while another session's batch is built. Returns false if progress says to stop. */
static bool lock_builders(builders *builders, const batch *batch) {
  while (!mutex_lock_within(builders->lock, MOMENT_MS))
    if (!report_batch(batch)) return false;
  return true;
}

/* Selects the programs to build, longest source first. Returns false if there are none. */
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

/* Sends orders to up to `most` builders, and starts missing ones. */
static void send_orders(batch *batch, int most) {
  builders *builders = batch->device->builders;
  for (int i = 0; i < MAX_BUILDERS && i < most && batch->next < batch->n; i++) {
    builder *one = &builders->all[i];
    if (!one->process && (builders->is_useless || !start_builder(batch->device, one))) {
      (void)end_builder(builders, one, 0);
      continue;
    }
    send_order(batch, one);
  }
}

/* Returns the number of children for the batch, of which at most `most` are useful. */
static int count_trial_children(const batch *batch, int most) {
  if (quirk_serial_builds(batch->device->base.info.platform)) return most;
  if (most > MAX_TRIAL_CHILDREN) most = MAX_TRIAL_CHILDREN;
  const int useful = (batch->n + PROGRAMS_PER_CHILD - 1) / PROGRAMS_PER_CHILD;
  return most < useful ? most : useful;
}

static bool any_works(const builders *builders) {
  bool any = false;
  for (int i = 0; i < MAX_BUILDERS; i++) any = any || builders->all[i].order != NO_ORDER;
  return any;
}

/* Builds the batch with up to `most` builders; others stay idle. If a trial ends its child, a new
 * child continues with the other programs. */
static void run_batch(batch *batch, int most) {
  builders *builders = batch->device->builders;
  most = count_trial_children(batch, most);
  send_orders(batch, most);
  bool wanted = true;
  while (wanted && batch->done < batch->n) {
    const bool heard = receive_one(batch, true);
    wanted = report_batch(batch);
    if (wanted && batch->device->isolates) send_orders(batch, most);
    if (!heard && !any_works(builders)) break;
  }
  for (int i = 0; i < MAX_BUILDERS && !wanted; i++)
    if (builders->all[i].order != NO_ORDER) (void)end_builder(builders, &builders->all[i], 0);
}

static void request_save(const cl_device *device) {
  if (!device->builders->is_unsaved) return;
  device->builders->is_unsaved = false;
  for (int i = 0; i < MAX_BUILDERS && device->cache_dir; i++) {
    builder *one = &device->builders->all[i];
    if (!one->process || one->is_saving) continue;
    one->is_saving = message_send(child_socket(one->process), MESSAGE_SAVE, 0, "", 0, "", 0);
    if (!one->is_saving) (void)end_builder(device->builders, one, 0);
  }
}

int builders_build(cl_device *device, kernel_program *const *programs, int n, int most,
                   build_progress progress, void *ctx) {
  builders *builders = device->builders;
  if (!builders) return 0;
  batch batch = {.device = device,
                 .others = n,
                 .programs = calloc(2 * (size_t)n + 1, sizeof *batch.programs),
                 .lengths = calloc((size_t)n + 1, sizeof *batch.lengths),
                 .progress = progress,
                 .ctx = ctx};
  if (batch.programs && batch.lengths && lock_builders(builders, &batch)) {
    if (find_own_helper(device) && choose_programs(&batch, programs, n)) {
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
  request_save(device);
  for (int i = 0; i < MAX_BUILDERS; i++)
    if (builders->all[i].is_saving) set_deadline(&builders->all[i], SAVE_MS);
  while (any_saves(builders) && receive_one(&none, true)) continue;
  mutex_unlock(builders->lock);
}

void builders_reap(cl_device *device) {
  builders *builders = device->builders;
  if (!builders || !__atomic_load_n(&builders->n_alive, __ATOMIC_RELAXED)) return;
  batch none = {.device = device};
  if (!mutex_try_lock(builders->lock)) return; /* another session is building kernels */
  request_save(device);
  while (receive_one(&none, false)) continue;
  mutex_unlock(builders->lock);
}
