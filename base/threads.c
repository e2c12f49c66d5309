/* Mutexes, one-time initialisation, threads, and the pool of parallel loops.
 *
 * The pool's workers wait for a job by spinning briefly, then asleep. A job is open while it has
 * work; workers join it and leave it by an atomic count, so that the caller waits only for those
 * who came, never for one that is still waking up. */
#include "base/threads.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/float_env.h"
#include "base/memory.h"
#include "base/ranges.h"

void once_run(once *o, void (*init)(void)) {
  enum { NEW = 0, RUNNING = 1, DONE = 2 };
  int expected = NEW;
  if (__atomic_load_n(&o->state, __ATOMIC_ACQUIRE) == DONE) return;
  if (__atomic_compare_exchange_n(&o->state, &expected, RUNNING, false, __ATOMIC_ACQUIRE,
                                  __ATOMIC_ACQUIRE)) {
    init();
    __atomic_store_n(&o->state, DONE, __ATOMIC_RELEASE);
    return;
  }
  while (__atomic_load_n(&o->state, __ATOMIC_ACQUIRE) != DONE) (void)sched_yield();
}

struct mutex {
  pthread_mutex_t m;
};

clave_status mutex_create(mutex **out) {
  *out = malloc(sizeof **out);
  if (!*out) return status_no_memory();
  if (pthread_mutex_init(&(*out)->m, NULL) != 0) {
    free(*out);
    *out = NULL;
    return status_no_memory();
  }
  return NULL;
}

void mutex_destroy(mutex *m) {
  if (!m) return;
  (void)pthread_mutex_destroy(&m->m);
  free(m);
}

void mutex_lock(mutex *m) { (void)pthread_mutex_lock(&m->m); }
bool mutex_try_lock(mutex *m) { return pthread_mutex_trylock(&m->m) == 0; }
bool mutex_lock_within(mutex *m, int timeout_ms) {
  struct timespec until;
  (void)clock_gettime(CLOCK_REALTIME, &until);
  int64_t ns = until.tv_nsec + (int64_t)timeout_ms * 1000000;
  until.tv_sec += (time_t)(ns / 1000000000);
  until.tv_nsec = (long)(ns % 1000000000);
  return pthread_mutex_timedlock(&m->m, &until) == 0;
}
void mutex_unlock(mutex *m) { (void)pthread_mutex_unlock(&m->m); }

/* ---------------------------------------------------------------- events */

struct wait_event {
  pthread_mutex_t m;
  pthread_cond_t changed;
  bool open;
};

static bool init_wait_event(wait_event *g) {
  pthread_condattr_t attributes;
  if (pthread_mutex_init(&g->m, NULL) != 0) return false;
  bool good = pthread_condattr_init(&attributes) == 0;
  if (good) {
    good = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
           pthread_cond_init(&g->changed, &attributes) == 0;
    (void)pthread_condattr_destroy(&attributes);
  }
  if (!good) (void)pthread_mutex_destroy(&g->m);
  return good;
}

clave_status wait_event_create(wait_event **out) {
  wait_event *g = *out = calloc(1, sizeof *g);
  if (g && init_wait_event(g)) return NULL;
  free(g);
  *out = NULL;
  return status_no_memory();
}

void wait_event_destroy(wait_event *g) {
  if (!g) return;
  (void)pthread_cond_destroy(&g->changed);
  (void)pthread_mutex_destroy(&g->m);
  free(g);
}

void wait_event_set(wait_event *g, bool open) {
  (void)pthread_mutex_lock(&g->m);
  g->open = open;
  if (open) (void)pthread_cond_broadcast(&g->changed);
  (void)pthread_mutex_unlock(&g->m);
}

bool wait_event_wait(wait_event *g, int timeout_ms) {
  const int64_t end = clock_ns() + (int64_t)timeout_ms * 1000000;
  const struct timespec until = {.tv_sec = (time_t)(end / 1000000000),
                                 .tv_nsec = (long)(end % 1000000000)};
  int code = 0;
  (void)pthread_mutex_lock(&g->m);
  while (!g->open && code == 0)
    code = timeout_ms < 0 ? pthread_cond_wait(&g->changed, &g->m)
                          : pthread_cond_timedwait(&g->changed, &g->m, &until);
  const bool open = g->open;
  (void)pthread_mutex_unlock(&g->m);
  return open;
}

/* ---------------------------------------------------------------- threads */

struct thread {
  pthread_t id;
  void (*body)(void *ctx);
  void *ctx;
  pid_t process;
};

static void *run_thread(void *arg) {
  const thread *t = arg;
  float_env_reset();
  t->body(t->ctx);
  return NULL;
}

/* A thread that takes none of the signals that are sent to the process: its host's own threads may
 * wait for them. Those of faults stay, as does a profiler's. */
static int start_thread(void *(*body)(void *), void *ctx, pthread_t *out) {
  static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGPROF};
  sigset_t sent, before;
  (void)sigfillset(&sent);
  for (size_t i = 0; i < sizeof own / sizeof *own; i++) (void)sigdelset(&sent, own[i]);
  (void)pthread_sigmask(SIG_BLOCK, &sent, &before); /* which the thread inherits */
  int code = pthread_create(out, NULL, body, ctx);
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
  return code;
}

clave_status thread_create(void (*body)(void *ctx), void *ctx, thread **out) {
  thread *t = *out = malloc(sizeof *t);
  if (!t) return status_no_memory();
  *t = (thread){.body = body, .ctx = ctx, .process = getpid()};
  int code = start_thread(run_thread, t, &t->id);
  if (code == 0) return NULL;
  free(t);
  *out = NULL;
  return status_new(STATUS_NO_MEMORY, "the system refuses a thread (error %d)", code);
}

bool thread_is_here(const thread *t) { return t->process == getpid(); }

void thread_join(thread *t) {
  if (!t) return;
  (void)pthread_join(t->id, NULL);
  free(t);
}

/* ---------------------------------------------------------------- the pool */

enum {
  MAX_THREADS = 1024,
  CHUNKS_PER_THREAD = 4, /* dynamic chunks even out unequal threads */
  SPIN_NS =
      50 * 1000, /* longer than the gap between two nodes of a run, short for everybody else */
};

/* thread_pool.state: the job's number in the upper half, below it the count of workers inside and
 * the open bit. */
#define STATE_OPEN ((uint64_t)1)
#define STATE_WORKER ((uint64_t)2)
#define STATE_WORKERS ((uint64_t)0xFFFFFFFE)
#define STATE_JOB ((uint64_t)1 << 32)

typedef struct job {
  kernel_body body;
  void *ctx;
  int64_t n, chunk, n_chunks, n_ranges;
} job;

typedef struct worker {
  thread_pool *pool; /* borrowed, outlives us */
  pthread_t id;
  int64_t range; /* that it owns, where a job has so many; the caller owns the first */
} worker;

struct thread_pool {
  worker *workers;    /* owned, n_workers */
  work_range *ranges; /* owned, n_workers + 1: of the job's chunks */
  int n_workers;      /* without the caller */
  int64_t spin_ns;    /* 0 where there is no second CPU to spin on */
  atomic_flag taken;  /* by the caller of the job */
  job work;           /* written only while no worker is inside and the job is closed */
  _Atomic uint64_t state;
  _Atomic int sleepers; /* that nobody has woken up yet */
  int woken;            /* that are still asleep */
  _Atomic bool caller_waits, stop;
  pthread_mutex_t m;
  pthread_cond_t wake, done;
};

static void cpu_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static void run_chunks(thread_pool *p, int64_t range) {
  const job *w = &p->work;
  const int64_t own = range % w->n_ranges;
  for (int64_t at = own, i; ranges_take(p->ranges, w->n_chunks, w->n_ranges, own, &at, &i);) {
    int64_t begin = i * w->chunk;
    w->body(w->ctx, begin, w->n - begin < w->chunk ? w->n : begin + w->chunk);
  }
}

/* Is there an open job other than the one numbered `last`? */
static bool has_job(uint64_t state, uint64_t last) {
  return (state & STATE_OPEN) && state / STATE_JOB != last;
}

static bool spin_for_job(thread_pool *p, uint64_t last) {
  int64_t end = clock_ns() + p->spin_ns;
  do {
    for (int i = 0; i < 32; i++) {
      if (has_job(atomic_load(&p->state), last) || atomic_load(&p->stop)) return true;
      cpu_relax();
    }
  } while (clock_ns() < end);
  return false;
}

/* Until a job comes or somebody else's has woken us, who came too late: the next one may be near.
 */
static void sleep_for_job(thread_pool *p, uint64_t last) {
  (void)pthread_mutex_lock(&p->m);
  atomic_fetch_add(&p->sleepers, 1);
  if (!has_job(atomic_load(&p->state), last))
    while (p->woken == 0 && !atomic_load(&p->stop)) (void)pthread_cond_wait(&p->wake, &p->m);
  if (p->woken > 0)
    p->woken--;
  else
    atomic_fetch_sub(&p->sleepers, 1);
  (void)pthread_mutex_unlock(&p->m);
}

static void leave_job(thread_pool *p) {
  uint64_t before = atomic_fetch_sub(&p->state, STATE_WORKER);
  if ((before & STATE_WORKERS) != STATE_WORKER || !atomic_load(&p->caller_waits)) return;
  (void)pthread_mutex_lock(&p->m);
  (void)pthread_cond_signal(&p->done);
  (void)pthread_mutex_unlock(&p->m);
}

static void *run_worker(void *arg) {
  const worker *w = arg;
  thread_pool *p = w->pool;
  uint64_t last = 0; /* jobs are numbered from 1 */
  float_env_reset();
  for (;;) {
    if (!spin_for_job(p, last)) sleep_for_job(p, last);
    if (atomic_load(&p->stop)) return NULL;
    uint64_t state = atomic_load(&p->state);
    if (!has_job(state, last)) continue;
    if (!atomic_compare_exchange_weak(&p->state, &state, state + STATE_WORKER)) continue;
    last = state / STATE_JOB;
    run_chunks(p, w->range);
    leave_job(p);
  }
}

/* Wakes up to `wanted` sleeping workers, each of them once. */
static void wake_workers(thread_pool *p, int64_t wanted) {
  if (atomic_load(&p->sleepers) == 0) return;
  (void)pthread_mutex_lock(&p->m);
  for (; atomic_load(&p->sleepers) > 0 && wanted > 0; wanted--) {
    atomic_fetch_sub(&p->sleepers, 1);
    p->woken++;
    (void)pthread_cond_signal(&p->wake);
  }
  (void)pthread_mutex_unlock(&p->m);
}

static void wait_for_workers(thread_pool *p) {
  int64_t end = clock_ns() + SPIN_NS;
  do {
    for (int i = 0; i < 32; i++) {
      if ((atomic_load(&p->state) & STATE_WORKERS) == 0) return;
      cpu_relax();
    }
  } while (p->spin_ns > 0 && clock_ns() < end);
  (void)pthread_mutex_lock(&p->m);
  atomic_store(&p->caller_waits, true);
  while ((atomic_load(&p->state) & STATE_WORKERS) != 0) (void)pthread_cond_wait(&p->done, &p->m);
  atomic_store(&p->caller_waits, false);
  (void)pthread_mutex_unlock(&p->m);
}

void thread_pool_for(thread_pool *p, int64_t n, int64_t grain, kernel_body body, void *ctx) {
  if (n <= 0) return;
  if (grain < 1) grain = 1;
  if (n <= grain || p->n_workers == 0 || atomic_flag_test_and_set(&p->taken)) {
    body(ctx, 0, n);
    return;
  }
  int64_t grains = n / grain, share = grains / ((int64_t)(p->n_workers + 1) * CHUNKS_PER_THREAD);
  int64_t chunk = share > 1 ? share * grain : grain;
  const int64_t n_chunks = n / chunk + (n % chunk != 0), threads = p->n_workers + 1;
  p->work = (job){body, ctx, n, chunk, n_chunks, n_chunks < threads ? n_chunks : threads};
  for (int64_t i = 0; i < p->work.n_ranges; i++) p->ranges[i].taken = 0;
  uint64_t number = atomic_load(&p->state) / STATE_JOB + 1;
  if (number > UINT32_MAX) number = 1;
  atomic_store(&p->state, number * STATE_JOB + STATE_OPEN);
  wake_workers(p, p->work.n_chunks - 1);
  run_chunks(p, 0);
  atomic_fetch_and(&p->state, ~STATE_OPEN);
  wait_for_workers(p);
  atomic_flag_clear(&p->taken);
}

void thread_pool_for_some(thread_pool *p, int n_threads, int64_t n, int64_t grain, kernel_body body,
                          void *ctx) {
  if (n <= 0) return;
  const int64_t each = (n + n_threads - 1) / n_threads;
  if (n_threads < thread_pool_size(p) && grain < each) grain = each;
  thread_pool_for(p, n, grain, body, ctx);
}

int thread_pool_size(const thread_pool *p) { return p->n_workers + 1; }

static int count_cpus(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  long n = sysconf(_SC_NPROCESSORS_ONLN);
  return n > 0 ? (int)n : 1;
}

/* CLAVE_THREADS, else the CPUs. */
static clave_status choose_threads(int *out) {
  const char *value = getenv("CLAVE_THREADS");
  if (!value || !value[0]) {
    int cpus = count_cpus();
    *out = cpus < MAX_THREADS ? cpus : MAX_THREADS;
    return NULL;
  }
  char *end;
  errno = 0;
  long n = strtol(value, &end, 10);
  if (value[0] < '0' || value[0] > '9' || *end || errno || n < 1 || n > MAX_THREADS) {
    return INVALID("CLAVE_THREADS: expected a number from 1 to %d, got '%s'", (int)MAX_THREADS,
                   value);
  }
  *out = (int)n;
  return NULL;
}

static void free_pool(thread_pool *p) {
  free(p->workers);
  free(p->ranges);
  free(p);
}

clave_status thread_pool_create(int n_threads, thread_pool **out) {
  *out = NULL;
  if (n_threads <= 0) TRY(choose_threads(&n_threads));
  if (n_threads > MAX_THREADS)
    return INVALID("n_threads: expected at most %d, got %d", (int)MAX_THREADS, n_threads);
  thread_pool *p = calloc(1, sizeof *p);
  if (!p) return status_no_memory();
  p->workers = calloc((size_t)n_threads, sizeof *p->workers);
  p->ranges = memory_alloc((size_t)n_threads * sizeof *p->ranges);
  if (!p->workers || !p->ranges) {
    free_pool(p);
    return status_no_memory();
  }
  p->spin_ns = n_threads <= count_cpus() ? SPIN_NS : 0;
  atomic_flag_clear(&p->taken);
  (void)pthread_mutex_init(&p->m, NULL);
  (void)pthread_cond_init(&p->wake, NULL);
  (void)pthread_cond_init(&p->done, NULL);
  while (p->n_workers < n_threads - 1) {
    worker *w = &p->workers[p->n_workers];
    *w = (worker){.pool = p, .range = p->n_workers + 1};
    if (start_thread(run_worker, w, &w->id) != 0) break;
    p->n_workers++;
  }
  *out = p;
  return NULL;
}

void thread_pool_destroy(thread_pool *p) {
  if (!p) return;
  (void)pthread_mutex_lock(&p->m);
  atomic_store(&p->stop, true);
  (void)pthread_cond_broadcast(&p->wake);
  (void)pthread_mutex_unlock(&p->m);
  for (int i = 0; i < p->n_workers; i++) (void)pthread_join(p->workers[i].id, NULL);
  (void)pthread_cond_destroy(&p->wake);
  (void)pthread_cond_destroy(&p->done);
  (void)pthread_mutex_destroy(&p->m);
  free_pool(p);
}
