/* Mutexes, one-time initialisation, threads, and the pool of parallel loops.
 *
 * The pool's workers wait for a job by spinning briefly, then asleep. A job is open while it has
 * work. Workers join and leave it by an atomic count, so that the caller waits only for those who
 * joined, never for one that is still waking up. */
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

void once_run(once *once, void (*init)(void)) {
  enum { NEW = 0, RUNNING = 1, DONE = 2 };
  int expected = NEW;
  if (__atomic_load_n(&once->state, __ATOMIC_ACQUIRE) == DONE) return;
  if (__atomic_compare_exchange_n(&once->state, &expected, RUNNING, false, __ATOMIC_ACQUIRE,
                                  __ATOMIC_ACQUIRE)) {
    init();
    __atomic_store_n(&once->state, DONE, __ATOMIC_RELEASE);
    return;
  }
  while (__atomic_load_n(&once->state, __ATOMIC_ACQUIRE) != DONE) (void)sched_yield();
}

/* Returns the time at which a wait that begins now times out. */
static struct timespec wait_end(clockid_t clock, int timeout_ms) {
  struct timespec until;
  (void)clock_gettime(clock, &until);
  const int64_t ns = until.tv_nsec + (int64_t)timeout_ms * 1000000;
  until.tv_sec += (time_t)(ns / 1000000000);
  until.tv_nsec = (long)(ns % 1000000000);
  return until;
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

void mutex_destroy(mutex *mutex) {
  if (!mutex) return;
  (void)pthread_mutex_destroy(&mutex->m);
  free(mutex);
}

void mutex_lock(mutex *mutex) { (void)pthread_mutex_lock(&mutex->m); }
bool mutex_try_lock(mutex *mutex) { return pthread_mutex_trylock(&mutex->m) == 0; }
bool mutex_lock_within(mutex *mutex, int timeout_ms) {
  const struct timespec until = wait_end(CLOCK_REALTIME, timeout_ms);
  return pthread_mutex_timedlock(&mutex->m, &until) == 0;
}
void mutex_unlock(mutex *mutex) { (void)pthread_mutex_unlock(&mutex->m); }

/* ---------------------------------------------------------------- events */

struct wait_event {
  pthread_mutex_t m;
  pthread_cond_t changed;
  bool open;
};

/* The clock of timed waits. Condition variables of Windows support only the calendar's clock. */
#ifdef _WIN32
enum { WAIT_CLOCK = CLOCK_REALTIME };
#else
enum { WAIT_CLOCK = CLOCK_MONOTONIC };
#endif

static bool init_wait_event(wait_event *event) {
  pthread_condattr_t attributes;
  if (pthread_mutex_init(&event->m, NULL) != 0) return false;
  bool good = pthread_condattr_init(&attributes) == 0;
  if (good) {
    good = pthread_condattr_setclock(&attributes, WAIT_CLOCK) == 0 &&
           pthread_cond_init(&event->changed, &attributes) == 0;
    (void)pthread_condattr_destroy(&attributes);
  }
  if (!good) (void)pthread_mutex_destroy(&event->m);
  return good;
}

clave_status wait_event_create(wait_event **out) {
  wait_event *event = *out = calloc(1, sizeof *event);
  if (event && init_wait_event(event)) return NULL;
  free(event);
  *out = NULL;
  return status_no_memory();
}

void wait_event_destroy(wait_event *event) {
  if (!event) return;
  (void)pthread_cond_destroy(&event->changed);
  (void)pthread_mutex_destroy(&event->m);
  free(event);
}

void wait_event_set(wait_event *event, bool open) {
  (void)pthread_mutex_lock(&event->m);
  event->open = open;
  if (open) (void)pthread_cond_broadcast(&event->changed);
  (void)pthread_mutex_unlock(&event->m);
}

bool wait_event_wait(wait_event *event, int timeout_ms) {
  const struct timespec until = wait_end(WAIT_CLOCK, timeout_ms);
  int code = 0;
  (void)pthread_mutex_lock(&event->m);
  while (!event->open && code == 0)
    code = timeout_ms < 0 ? pthread_cond_wait(&event->changed, &event->m)
                          : pthread_cond_timedwait(&event->changed, &event->m, &until);
  const bool open = event->open;
  (void)pthread_mutex_unlock(&event->m);
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
  const thread *thread = arg;
  float_env_reset();
  thread->body(thread->ctx);
  return NULL;
}

/* Starts a thread that handles no signals sent to the process, since the host's own threads may
 * wait for them. Signals of faults, and a profiler's, stay enabled. */
static int start_thread(void *(*body)(void *), void *ctx, pthread_t *out) {
  static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGPROF};
  sigset_t sent, before;
  (void)sigfillset(&sent);
  for (size_t i = 0; i < sizeof own / sizeof *own; i++) (void)sigdelset(&sent, own[i]);
  (void)pthread_sigmask(SIG_BLOCK, &sent, &before); /* inherited by the thread */
  int code = pthread_create(out, NULL, body, ctx);
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
  return code;
}

clave_status thread_create(void (*body)(void *ctx), void *ctx, thread **out) {
  thread *worker = *out = malloc(sizeof *worker);
  if (!worker) return status_no_memory();
  *worker = (thread){.body = body, .ctx = ctx, .process = getpid()};
  int code = start_thread(run_thread, worker, &worker->id);
  if (code == 0) return NULL;
  free(worker);
  *out = NULL;
  return status_new(STATUS_NO_MEMORY, "the system cannot create a thread (error %d)", code);
}

bool thread_is_here(const thread *thread) { return thread->process == getpid(); }

void thread_join(thread *thread) {
  if (!thread) return;
  (void)pthread_join(thread->id, NULL);
  free(thread);
}

/* ---------------------------------------------------------------- the pool */

enum {
  MAX_THREADS = 1024,
  CHUNKS_PER_THREAD = 4, /* dynamic chunks balance threads of different speed */
  SPIN_NS = 50 * 1000,   /* longer than the gap between nodes, too short to disturb others */
};

/* thread_pool.state: the job's number in the upper half; below it the count of workers inside, and
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
  thread_pool *pool; /* borrowed; outlives the worker */
  pthread_t id;
  int64_t range; /* index of its own range, if a job has so many; the caller's is 0 */
} worker;

struct thread_pool {
  worker *workers;    /* owned, n_workers */
  work_range *ranges; /* owned, n_workers + 1: ranges of the job's chunks */
  int n_workers;      /* excludes the caller */
  int64_t spin_ns;    /* 0 if there are fewer CPUs than threads */
  atomic_flag taken;  /* a job is running; set by its caller */
  job work;           /* written only while no worker is inside and the job is closed */
  _Atomic uint64_t state;
  _Atomic int sleepers; /* sleeping workers that have not been woken */
  int woken;            /* workers woken but still asleep */
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

static void run_chunks(thread_pool *pool, int64_t range) {
  const job *job = &pool->work;
  const int64_t own = range % job->n_ranges;
  for (int64_t at = own, i;
       ranges_take(pool->ranges, job->n_chunks, job->n_ranges, own, &at, &i);) {
    int64_t begin = i * job->chunk;
    job->body(job->ctx, begin, job->n - begin < job->chunk ? job->n : begin + job->chunk);
  }
}

/* True if a job other than number `last` is open. */
static bool has_job(uint64_t state, uint64_t last) {
  return (state & STATE_OPEN) && state / STATE_JOB != last;
}

static bool spin_for_job(thread_pool *pool, uint64_t last) {
  int64_t end = clock_ns() + pool->spin_ns;
  do {
    for (int i = 0; i < 32; i++) {
      if (has_job(atomic_load(&pool->state), last) || atomic_load(&pool->stop)) return true;
      cpu_relax();
    }
  } while (clock_ns() < end);
  return false;
}

/* Sleeps until a caller wakes the worker. The job may be closed by then, but a next one may be
 * near. */
static void sleep_for_job(thread_pool *pool, uint64_t last) {
  (void)pthread_mutex_lock(&pool->m);
  atomic_fetch_add(&pool->sleepers, 1);
  if (!has_job(atomic_load(&pool->state), last))
    while (pool->woken == 0 && !atomic_load(&pool->stop))
      (void)pthread_cond_wait(&pool->wake, &pool->m);
  if (pool->woken > 0)
    pool->woken--;
  else
    atomic_fetch_sub(&pool->sleepers, 1);
  (void)pthread_mutex_unlock(&pool->m);
}

static void leave_job(thread_pool *pool) {
  uint64_t before = atomic_fetch_sub(&pool->state, STATE_WORKER);
  if ((before & STATE_WORKERS) != STATE_WORKER || !atomic_load(&pool->caller_waits)) return;
  (void)pthread_mutex_lock(&pool->m);
  (void)pthread_cond_signal(&pool->done);
  (void)pthread_mutex_unlock(&pool->m);
}

static void *run_worker(void *arg) {
  const worker *worker = arg;
  thread_pool *pool = worker->pool;
  uint64_t last = 0; /* jobs are numbered from 1 */
  float_env_reset();
  for (;;) {
    if (!spin_for_job(pool, last)) sleep_for_job(pool, last);
    if (atomic_load(&pool->stop)) return NULL;
    uint64_t state = atomic_load(&pool->state);
    if (!has_job(state, last)) continue;
    if (!atomic_compare_exchange_weak(&pool->state, &state, state + STATE_WORKER)) continue;
    last = state / STATE_JOB;
    run_chunks(pool, worker->range);
    leave_job(pool);
  }
}

/* Wakes up to `wanted` sleeping workers that have not been woken. */
static void wake_workers(thread_pool *pool, int64_t wanted) {
  if (atomic_load(&pool->sleepers) == 0) return;
  (void)pthread_mutex_lock(&pool->m);
  for (; atomic_load(&pool->sleepers) > 0 && wanted > 0; wanted--) {
    atomic_fetch_sub(&pool->sleepers, 1);
    pool->woken++;
    (void)pthread_cond_signal(&pool->wake);
  }
  (void)pthread_mutex_unlock(&pool->m);
}

static void wait_for_workers(thread_pool *pool) {
  int64_t end = clock_ns() + SPIN_NS;
  do {
    for (int i = 0; i < 32; i++) {
      if ((atomic_load(&pool->state) & STATE_WORKERS) == 0) return;
      cpu_relax();
    }
  } while (pool->spin_ns > 0 && clock_ns() < end);
  (void)pthread_mutex_lock(&pool->m);
  atomic_store(&pool->caller_waits, true);
  while ((atomic_load(&pool->state) & STATE_WORKERS) != 0)
    (void)pthread_cond_wait(&pool->done, &pool->m);
  atomic_store(&pool->caller_waits, false);
  (void)pthread_mutex_unlock(&pool->m);
}

void thread_pool_for(thread_pool *pool, int64_t n, int64_t grain, kernel_body body, void *ctx) {
  if (n <= 0) return;
  if (grain < 1) grain = 1;
  if (n <= grain || pool->n_workers == 0 || atomic_flag_test_and_set(&pool->taken)) {
    body(ctx, 0, n);
    return;
  }
  int64_t grains = n / grain, share = grains / ((int64_t)(pool->n_workers + 1) * CHUNKS_PER_THREAD);
  int64_t chunk = share > 1 ? share * grain : grain;
  const int64_t n_chunks = n / chunk + (n % chunk != 0), threads = pool->n_workers + 1;
  pool->work = (job){body, ctx, n, chunk, n_chunks, n_chunks < threads ? n_chunks : threads};
  for (int64_t i = 0; i < pool->work.n_ranges; i++) pool->ranges[i].taken = 0;
  uint64_t number = atomic_load(&pool->state) / STATE_JOB + 1;
  if (number > UINT32_MAX) number = 1;
  atomic_store(&pool->state, number * STATE_JOB + STATE_OPEN);
  wake_workers(pool, pool->work.n_chunks - 1);
  run_chunks(pool, 0);
  atomic_fetch_and(&pool->state, ~STATE_OPEN);
  wait_for_workers(pool);
  atomic_flag_clear(&pool->taken);
}

void thread_pool_for_some(thread_pool *pool, int n_threads, int64_t n, int64_t grain,
                          kernel_body body, void *ctx) {
  if (n <= 0) return;
  const int64_t each = (n + n_threads - 1) / n_threads;
  if (n_threads < thread_pool_size(pool) && grain < each) grain = each;
  thread_pool_for(pool, n, grain, body, ctx);
}

int thread_pool_size(const thread_pool *pool) { return pool->n_workers + 1; }

static int count_cpus(void) {
#ifdef CPU_COUNT
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
  long n = sysconf(_SC_NPROCESSORS_ONLN);
  return n > 0 ? (int)n : 1;
}

/* Sets *out to CLAVE_THREADS, else the number of CPUs. Fails if CLAVE_THREADS is invalid. */
static clave_status choose_thread_count(int *out) {
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

static void free_pool(thread_pool *pool) {
  free(pool->workers);
  memory_free(pool->ranges);
  free(pool);
}

clave_status thread_pool_create(int n_threads, thread_pool **out) {
  *out = NULL;
  if (n_threads <= 0) TRY(choose_thread_count(&n_threads));
  if (n_threads > MAX_THREADS)
    return INVALID("n_threads: expected at most %d, got %d", (int)MAX_THREADS, n_threads);
  thread_pool *pool = calloc(1, sizeof *pool);
  if (!pool) return status_no_memory();
  pool->workers = calloc((size_t)n_threads, sizeof *pool->workers);
  pool->ranges = memory_alloc((size_t)n_threads * sizeof *pool->ranges);
  if (!pool->workers || !pool->ranges) {
    free_pool(pool);
    return status_no_memory();
  }
  pool->spin_ns = n_threads <= count_cpus() ? SPIN_NS : 0;
  atomic_flag_clear(&pool->taken);
  (void)pthread_mutex_init(&pool->m, NULL);
  (void)pthread_cond_init(&pool->wake, NULL);
  (void)pthread_cond_init(&pool->done, NULL);
  while (pool->n_workers < n_threads - 1) {
    worker *helper = &pool->workers[pool->n_workers];
    *helper = (worker){.pool = pool, .range = pool->n_workers + 1};
    if (start_thread(run_worker, helper, &helper->id) != 0) break;
    pool->n_workers++;
  }
  *out = pool;
  return NULL;
}

void thread_pool_destroy(thread_pool *pool) {
  if (!pool) return;
  (void)pthread_mutex_lock(&pool->m);
  atomic_store(&pool->stop, true);
  (void)pthread_cond_broadcast(&pool->wake);
  (void)pthread_mutex_unlock(&pool->m);
  for (int i = 0; i < pool->n_workers; i++) (void)pthread_join(pool->workers[i].id, NULL);
  (void)pthread_cond_destroy(&pool->wake);
  (void)pthread_cond_destroy(&pool->done);
  (void)pthread_mutex_destroy(&pool->m);
  free_pool(pool);
}
