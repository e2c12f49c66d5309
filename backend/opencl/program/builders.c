/* Child processes that build kernels for this one. A child has one order at a time; the longest
 * sources go first. One that says nothing, or nonsense, is ended, and its order is left to us. */
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
  child *process; /* owned; NULL: there is none */
  bool is_greeted, is_saving;
  int order;        /* that it has, or NO_ORDER */
  int64_t deadline; /* ns: by when it must have said something; INT64_MAX: whenever it likes */
} builder;

struct builders {
  mutex *lock;     /* of all */
  char *helper;    /* owned */
  bool is_useless; /* there is no helper, or it is another version or program */
  bool is_unsaved; /* binaries are not yet asked for: the run that waits for the kernels goes first
                    */
  builder all[MAX_BUILDERS];
  int n_alive; /* atomic */
};

/* What is built in one call. */
typedef struct batch {
  cl_device *d;
  kernel_program **programs; /* those to order, the longest source first */
  size_t *lengths;
  int n, next, done;
  int others; /* steps that follow, for progress */
  build_progress progress;
  void *ctx;
} batch;

clave_status builders_create(builders **out) {
  *out = calloc(1, sizeof **out);
  if (!*out) return status_no_memory();
  for (int i = 0; i < MAX_BUILDERS; i++) (*out)->all[i].order = NO_ORDER;
  return mutex_create(&(*out)->lock);
}

static void end_builder(builders *b, builder *one, int timeout_ms) {
  if (!one->process) return;
  child_end(one->process, timeout_ms);
  *one = (builder){.order = NO_ORDER};
  __atomic_fetch_sub(&b->n_alive, 1, __ATOMIC_RELAXED);
}

void builders_destroy(builders *b) {
  if (!b) return;
  for (int i = 0; i < MAX_BUILDERS; i++)
    if (b->all[i].process) child_hang_up(b->all[i].process);
  for (int i = 0; i < MAX_BUILDERS; i++) end_builder(b, &b->all[i], LEAVE_MS);
  mutex_destroy(b->lock);
  free(b->helper);
  free(b);
}

/* ---------------------------------------------------------------- starting */

static void set_deadline(builder *one, int timeout_ms) {
  one->deadline = timeout_ms < 0 ? INT64_MAX : clock_ns() + (int64_t)timeout_ms * 1000000;
}

/* The driver's files must be the same for all. */
static bool has_shared_files(void) {
  const char *given = getenv(quirk_files_variable());
  return driver_folder_path() || (given && *given);
}

/* It starts none of its own, whatever program it is. */
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

static bool start_builder(cl_device *d, builder *one) {
  builders *b = d->builders;
  const char *folder = d->cache_dir ? d->cache_dir : "";
  clave_status st = start_helper(b->helper, &one->process);
  b->is_useless = st != NULL;
  status_free(st);
  if (b->is_useless) return false;
  __atomic_fetch_add(&b->n_alive, 1, __ATOMIC_RELAXED);
  greeting g;
  build_greeting(d, d->index, &g);
  set_deadline(one, GREETING_MS);
  b->is_useless = !message_send(child_socket(one->process), MESSAGE_GREETING, 0, &g, sizeof g,
                                folder, strlen(folder));
  return !b->is_useless;
}

static bool find_own_helper(builders *b) {
  if (!b->helper && !b->is_useless) b->helper = find_helper();
  if (!b->helper || !has_shared_files()) b->is_useless = true;
  return !b->is_useless;
}

/* ---------------------------------------------------------------- orders */

static bool goes_on(const batch *t) {
  return !t->progress || t->progress(t->ctx, t->done, t->n + t->others);
}

/* One that never greeted has no successor. */
static void drop(batch *t, builder *one) {
  builders *b = t->d->builders;
  if (!one->is_greeted) b->is_useless = true;
  if (one->order != NO_ORDER) t->done++;
  end_builder(b, one, 0);
}

/* Gives it the next order; one that does not take it is ended. */
static void give_order(batch *t, builder *one) {
  order o;
  text texts = {0};
  bool good = true;
  while (good && t->next < t->n && one->order == NO_ORDER) {
    int i = t->next++;
    if (!program_order(t->d, t->programs[i], &o, &texts)) {
      t->done++;
      continue;
    }
    good = message_send(child_socket(one->process), MESSAGE_ORDER, (uint32_t)i, &o, sizeof o,
                        texts.data, texts.size);
    one->order = i;
    if (one->is_greeted) set_deadline(one, ORDER_MS);
  }
  text_free(&texts);
  if (!good) drop(t, one);
}

static bool is_same_library(const batch *t, const char *payload, uint32_t size) {
  greeting mine, its;
  if (size != sizeof its) return false;
  memcpy(&its, payload, sizeof its);
  build_greeting(t->d, t->d->index, &mine);
  return memcmp(&mine, &its, sizeof its) == 0;
}

/* False: it is of no use. */
static bool take_message(batch *t, builder *one) {
  message m;
  char *payload;
  if (!message_receive(child_socket(one->process), 0, &m, &payload)) return false;
  bool good = false;
  if (m.kind == MESSAGE_READY && !one->is_greeted) {
    good = one->is_greeted = is_same_library(t, payload, m.size);
    t->d->builders->is_useless |= !good;
    set_deadline(one, one->order == NO_ORDER ? -1 : ORDER_MS);
  } else if (m.kind == MESSAGE_BUILT && one->is_greeted) {
    good = one->order != NO_ORDER && m.number == (uint32_t)one->order;
  } else if (m.kind == MESSAGE_SAVED && one->is_saving) {
    good = true;
    one->is_saving = false;
    if (one->order == NO_ORDER) set_deadline(one, -1);
  }
  free(payload);
  if (!good || m.kind != MESSAGE_BUILT) return good;
  one->order = NO_ORDER;
  set_deadline(one, -1);
  t->done++;
  give_order(t, one);
  return true;
}

/* Hears one message of whoever. waits: for it, until one is late, or a moment. False: there is
 * none. */
static bool hear_one(batch *t, bool waits) {
  builders *b = t->d->builders;
  int sockets[MAX_BUILDERS], n = 0;
  int64_t first = INT64_MAX, now = clock_ns();
  for (int i = 0; i < MAX_BUILDERS; i++) {
    builder *one = &b->all[i];
    if (one->process && one->deadline <= now) drop(t, one);
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
  if (heard >= 0 && !take_message(t, &b->all[heard])) drop(t, &b->all[heard]);
  return heard >= 0 || waits;
}

/* ---------------------------------------------------------------- a batch */

/* Waits while another session's batch is built. False: progress says not to. */
static bool lock_builders(builders *b, const batch *t) {
  while (!mutex_lock_within(b->lock, MOMENT_MS))
    if (!goes_on(t)) return false;
  return true;
}

/* Those that must be built, the longest source first. False: none. */
static bool choose_programs(batch *t, kernel_program *const *programs, int n) {
  order o;
  text texts = {0};
  for (int i = 0; i < n; i++) {
    if (!program_order(t->d, programs[i], &o, &texts)) continue;
    int at = t->n++;
    for (; at > 0 && t->lengths[at - 1] < texts.size; at--) {
      t->lengths[at] = t->lengths[at - 1];
      t->programs[at] = t->programs[at - 1];
    }
    t->lengths[at] = texts.size;
    t->programs[at] = programs[i];
  }
  text_free(&texts);
  return t->n > 0;
}

/* Builders beyond `most` stay as they are. */
static void run_batch(batch *t, int most) {
  builders *b = t->d->builders;
  for (int i = 0; i < MAX_BUILDERS && i < most && t->next < t->n; i++) {
    builder *one = &b->all[i];
    if (!one->process && (b->is_useless || !start_builder(t->d, one))) {
      end_builder(b, one, 0);
      continue;
    }
    give_order(t, one);
  }
  bool wanted = true;
  while (wanted && t->done < t->n && hear_one(t, true)) wanted = goes_on(t);
  for (int i = 0; i < MAX_BUILDERS && !wanted; i++)
    if (b->all[i].order != NO_ORDER) end_builder(b, &b->all[i], 0);
}

static void ask_to_save(const cl_device *d) {
  if (!d->builders->is_unsaved) return;
  d->builders->is_unsaved = false;
  for (int i = 0; i < MAX_BUILDERS && d->cache_dir; i++) {
    builder *one = &d->builders->all[i];
    if (!one->process || one->is_saving) continue;
    one->is_saving = message_send(child_socket(one->process), MESSAGE_SAVE, 0, "", 0, "", 0);
    if (!one->is_saving) end_builder(d->builders, one, 0);
  }
}

int builders_build(cl_device *d, kernel_program *const *programs, int n, int most,
                   build_progress progress, void *ctx) {
  builders *b = d->builders;
  if (!b) return 0;
  batch t = {.d = d,
             .others = n,
             .programs = calloc((size_t)n + 1, sizeof *t.programs),
             .lengths = calloc((size_t)n + 1, sizeof *t.lengths),
             .progress = progress,
             .ctx = ctx};
  if (t.programs && t.lengths && lock_builders(b, &t)) {
    if (find_own_helper(b) && choose_programs(&t, programs, n)) {
      run_batch(&t, most);
      b->is_unsaved = true;
    }
    mutex_unlock(b->lock);
  }
  free(t.programs);
  free(t.lengths);
  return t.n;
}

/* ---------------------------------------------------------------- afterwards */

static bool any_saves(const builders *b) {
  bool any = false;
  for (int i = 0; i < MAX_BUILDERS; i++) any = any || b->all[i].is_saving;
  return any;
}

void builders_wait(cl_device *d) {
  builders *b = d->builders;
  if (!b || !__atomic_load_n(&b->n_alive, __ATOMIC_RELAXED)) return;
  batch none = {.d = d};
  mutex_lock(b->lock);
  ask_to_save(d);
  for (int i = 0; i < MAX_BUILDERS; i++)
    if (b->all[i].is_saving) set_deadline(&b->all[i], SAVE_MS);
  while (any_saves(b) && hear_one(&none, true)) continue;
  mutex_unlock(b->lock);
}

void builders_reap(cl_device *d) {
  builders *b = d->builders;
  if (!b || !__atomic_load_n(&b->n_alive, __ATOMIC_RELAXED)) return;
  batch none = {.d = d};
  if (!mutex_try_lock(b->lock)) return; /* another session waits for kernels */
  ask_to_save(d);
  while (hear_one(&none, false)) continue;
  mutex_unlock(b->lock);
}
