/* An endurance test. Each round does what an application does with clave and destroys everything.
 * Then the memory, file descriptors, threads and OpenCL objects of the process are counted. These
 * must not rise over the later half, and every round must compute the same numbers.
 *
 *   soak --device D --scratch FILE [--seconds S] [--csv FILE]
 *
 * A round opens the device, loads two programs, and runs three threads with a session each (sizes
 * that change, runs that are cancelled, poison, profiles) beside a conversation that is saved,
 * forked, cancelled and restored. Reads examples/ in the current folder. OpenCL objects are counted
 * where test/stub_opencl stands in for the loader: ci/soak runs it so. */
#include <dirent.h>
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "clave_llm.h"

#define MNIST "examples/mnist/mnist.clv"
#define TINYLM "examples/tinylm/tinylm.clv"
#define PROMPT "ROMEO:\nWhat light"

enum { PIXELS = 28 * 28, CLASSES = 10, MAX_BATCH = 8, WORKERS = 3, RUNS = 6, MAX_IDS = 64 };
enum { TOKENS = 4, MIN_ROUNDS = 16 };

#define TRY(call)              \
  do {                         \
    clave_status st_ = (call); \
    if (st_) return st_;       \
  } while (0)

/* Results of the first round, which every later round must repeat. */
typedef struct answers {
  bool known;
  float logits[MAX_BATCH + 1][MAX_BATCH * CLASSES]; /* by batch size */
  uint32_t ids[MAX_IDS];
  size_t n_ids;
} answers;

/* ---- one round */

typedef struct soak_round {
  const char *device_spec, *scratch;
  unsigned number;
  answers *expected;
  clave_device *device;
  clave_program *mnist;
  clave_llm *llm;
} soak_round;

typedef struct worker {
  const soak_round *round;
  unsigned seed;
  pthread_t thread;
  const char *wrong; /* a literal; NULL if all was right */
  clave_status status;
} worker;

static unsigned next_random(unsigned *seed) {
  *seed = *seed * 1664525u + 1013904223u;
  return *seed >> 16;
}

/* Called before each op; *left is the number of ops that still run. Below 0: never cancels. */
static bool cancel_after(void *left) {
  int *count = left;
  return *count >= 0 && (*count)-- == 0;
}

static clave_status classify(clave_session *session, int64_t n, float *logits) {
  static float images[MAX_BATCH * PIXELS]; /* zeros: all workers read it */
  int64_t dims[] = {n, 1, 28, 28};
  clave_tensor in = clave_tensor_make(CLAVE_F32, 4, dims, images), out;
  TRY(clave_session_set_input(session, "forward", 0, &in));
  TRY(clave_session_run(session, "forward"));
  TRY(clave_session_output(session, NULL, 0, &out));
  memcpy(logits, out.data, (size_t)n * CLASSES * sizeof *logits);
  return NULL;
}

/* Runs n images, perhaps cancelled; a cancelled run must end with an error. */
static clave_status run_once(worker *worker, clave_session *session, int *cancel, int64_t n) {
  float logits[MAX_BATCH * CLASSES];
  clave_status status = classify(session, n, logits);
  bool cancelled = *cancel == -1;
  *cancel = -2;
  if (cancelled && !status) worker->wrong = "a cancelled run gave no error";
  if (cancelled) {
    clave_status_free(status);
    return NULL;
  }
  size_t bytes = (size_t)n * CLASSES * sizeof *logits;
  if (!status && worker->round->expected->known &&
      memcmp(logits, worker->round->expected->logits[n], bytes) != 0)
    worker->wrong = "other logits than in the first round";
  return status;
}

static clave_status use_session(worker *worker) {
  int cancel = -2;
  clave_session *session;
  clave_session_options options = {.size = sizeof options,
                                   .profile = next_random(&worker->seed) % 4 == 0,
                                   .poison = next_random(&worker->seed) % 4 == 0,
                                   .cancel = cancel_after,
                                   .cancel_ctx = &cancel};
  TRY(clave_session_create(worker->round->mnist, worker->round->device, &options, &session));
  clave_status status = NULL;
  for (int i = 0; i < RUNS && !status && !worker->wrong; i++) {
    cancel = next_random(&worker->seed) % 3 == 0 ? (int)(next_random(&worker->seed) % 8) : -2;
    status = run_once(worker, session, &cancel, 1 + next_random(&worker->seed) % MAX_BATCH);
  }
  clave_session_destroy(session);
  return status;
}

static void *work(void *arg) {
  worker *worker = arg;
  worker->status = use_session(worker);
  return NULL;
}

static clave_status answer(clave_llm_conversation *talk, int n) {
  clave_llm_token token;
  for (int i = 0; i < n; i++) TRY(clave_llm_next(talk, &token));
  return NULL;
}

/* True if both conversations have the same ids, equal to those of the first round. */
static bool same_ids(const clave_llm_conversation *left, const clave_llm_conversation *right,
                     answers *expected) {
  size_t n, m;
  const uint32_t *left_ids = clave_llm_ids(left, &n), *right_ids = clave_llm_ids(right, &m);
  if (n != m || n > MAX_IDS || memcmp(left_ids, right_ids, n * sizeof *left_ids) != 0) return false;
  if (expected->known)
    return n == expected->n_ids && memcmp(left_ids, expected->ids, n * sizeof *left_ids) == 0;
  memcpy(expected->ids, left_ids, n * sizeof *left_ids);
  expected->n_ids = n;
  return true;
}

/* Saves, forks, cancels and restores a text; both halves must continue with the same words. */
static clave_status talk_and_fork(worker *worker, clave_llm_conversation *talk,
                                  clave_llm_conversation **fork, int *cancel) {
  const soak_round *round = worker->round;
  TRY(clave_llm_prompt_text(talk, PROMPT, strlen(PROMPT)));
  TRY(answer(talk, TOKENS));
  TRY(clave_llm_save(talk, round->scratch));
  TRY(clave_llm_fork(talk, fork));
  *cancel = (int)(next_random(&worker->seed) % 16);
  clave_status stopped = answer(*fork, 1);
  if (!stopped) worker->wrong = "a cancelled answer gave no error";
  clave_status_free(stopped);
  *cancel = -2;
  TRY(answer(talk, TOKENS));
  TRY(clave_llm_restore(*fork, round->scratch));
  TRY(answer(*fork, TOKENS));
  if (!same_ids(talk, *fork, round->expected))
    worker->wrong = "other words than in the first round";
  TRY(clave_llm_reset(talk));
  TRY(clave_llm_prompt_text(talk, PROMPT, strlen(PROMPT)));
  return answer(talk, 1);
}

static clave_status hold_conversation(worker *worker) {
  int cancel = -2;
  clave_session_options session = {
      .size = sizeof session, .cancel = cancel_after, .cancel_ctx = &cancel};
  clave_llm_conversation_options options = {.size = sizeof options, .session = &session};
  clave_llm_conversation *talk, *fork = NULL;
  TRY(clave_llm_conversation_create(worker->round->llm, &options, &talk));
  clave_status status = talk_and_fork(worker, talk, &fork, &cancel);
  clave_llm_conversation_destroy(fork);
  clave_llm_conversation_destroy(talk);
  unlink(worker->round->scratch);
  return status;
}

static clave_status open_round(soak_round *round) {
  clave_device_options options = {.size = sizeof options, .n_threads = 2};
  TRY(clave_device_open(round->device_spec, &options, &round->device));
  TRY(clave_program_load(MNIST, NULL, &round->mnist));
  TRY(clave_llm_load(TINYLM, round->device, NULL, &round->llm));
  if (round->expected->known) return NULL;
  clave_session *session;
  TRY(clave_session_create(round->mnist, round->device, NULL, &session));
  clave_status status = NULL;
  for (int64_t n = 1; n <= MAX_BATCH && !status; n++)
    status = classify(session, n, round->expected->logits[n]);
  clave_session_destroy(session);
  return status;
}

/* Runs the workers and the conversation at the same time. Returns NULL, or what went wrong. */
static const char *run_workers(const soak_round *round, clave_status *status) {
  worker workers[WORKERS], talker = {.round = round, .seed = round->number};
  for (int i = 0; i < WORKERS; i++) {
    workers[i] = (worker){.round = round, .seed = round->number * WORKERS + (unsigned)i + 1};
    if (pthread_create(&workers[i].thread, NULL, work, &workers[i])) abort();
  }
  talker.status = hold_conversation(&talker);
  const char *wrong = talker.wrong;
  *status = talker.status;
  for (int i = 0; i < WORKERS; i++) {
    pthread_join(workers[i].thread, NULL);
    if (workers[i].wrong) wrong = workers[i].wrong;
    if (*status)
      clave_status_free(workers[i].status);
    else
      *status = workers[i].status;
  }
  return wrong;
}

/* True if everything was right; else prints what was wrong. */
static bool run_round(soak_round *round) {
  const char *wrong = NULL;
  clave_status status = open_round(round);
  if (!status) wrong = run_workers(round, &status);
  if (status) wrong = clave_status_message(status);
  if (wrong) printf("round %u: %s\n", round->number, wrong);
  round->expected->known = !wrong;
  clave_status_free(status);
  clave_device_destroy(round->device); /* before its programs and sessions, which keep it alive */
  clave_program_destroy(round->mnist);
  clave_llm_destroy(round->llm);
  return !wrong;
}

/* ---- gauges of the process */

typedef enum gauge { RSS, HEAP, FILES, THREADS, CL_OBJECTS, N_GAUGES } gauge;
static const char *const gauge_names[N_GAUGES] = {"rss_kb", "heap_kb", "files", "threads",
                                                  "cl_objects"};

typedef struct sample {
  double seconds, values[N_GAUGES];
} sample;

static double seconds_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double count_entries(const char *folder) {
  DIR *listing = opendir(folder);
  double n = -2; /* . and .. */
  while (listing && readdir(listing)) n++;
  if (listing) closedir(listing);
  return n;
}

static double resident_kb(void) {
  FILE *file = fopen("/proc/self/statm", "r");
  long pages = 0;
  if (file && fscanf(file, "%*d %ld", &pages) != 1) pages = 0;
  if (file) fclose(file);
  return (double)(pages * (sysconf(_SC_PAGESIZE) / 1024));
}

/* 0 without the stub. */
static double live_cl_objects(void) {
  void *library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_NOLOAD);
  void *from = library ? dlsym(library, "stub_live") : NULL;
  long (*live)(void) = NULL;
  memcpy(&live, &from, sizeof from);
  double n = live ? (double)live() : 0;
  if (library) dlclose(library);
  return n;
}

static sample take_sample(double begin) {
  malloc_trim(0);
  struct mallinfo2 heap = mallinfo2();
  sample sample = {.seconds = seconds_now() - begin};
  sample.values[RSS] = resident_kb();
  sample.values[HEAP] = (double)(heap.uordblks + heap.hblkhd) / 1024;
  sample.values[FILES] = count_entries("/proc/self/fd");
  sample.values[THREADS] = count_entries("/proc/self/task");
  sample.values[CL_OBJECTS] = live_cl_objects();
  return sample;
}

/* Returns the slope of the line fitted to samples [from, n), per sample. */
static double slope(const sample *sample, int from, int n, gauge g) {
  double count = n - from, mean_x = (count - 1) / 2, mean_y = 0, xy = 0, xx = 0;
  for (int i = from; i < n; i++) mean_y += sample[i].values[g] / count;
  for (int i = from; i < n; i++) {
    double x = i - from - mean_x;
    xy += x * (sample[i].values[g] - mean_y);
    xx += x * x;
  }
  return xx > 0 ? xy / xx : 0;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LIBC_MALLOC 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define LIBC_MALLOC 0
#endif
#endif
#ifndef LIBC_MALLOC
#define LIBC_MALLOC 1
#endif

/* Allowed rise of each gauge over the later half: zero, except for single pages and the driver's
 * own bookkeeping. Without glibc's caches of freed blocks (ci/soak disables them) the heap has the
 * same number of bytes after each round. A sanitizer keeps freed memory, so memory is not judged
 * with one. */
static const double allowed_rise[N_GAUGES] = {
    [RSS] = 1024, [HEAP] = 1, [FILES] = 0.5, [THREADS] = 0.5, [CL_OBJECTS] = 0.5};

/* ---- the run */

typedef struct soak {
  const char *device, *scratch, *csv;
  double seconds;
  int n; /* samples */
} soak;

/* A static array, because the heap is one of the gauges. */
static sample samples[1 << 20];
enum { MAX_ROUNDS = sizeof samples / sizeof *samples };

static bool run_rounds(soak *soak) {
  answers expected = {0};
  double begin = seconds_now();
  for (unsigned i = 0; i < MAX_ROUNDS; i++) {
    if (i >= MIN_ROUNDS && seconds_now() - begin >= soak->seconds) break;
    soak_round round = {
        .device_spec = soak->device, .scratch = soak->scratch, .number = i, .expected = &expected};
    if (!run_round(&round)) return false;
    samples[soak->n++] = take_sample(begin);
  }
  return true;
}

/* Returns the number of gauges that rose. */
static int judge(const soak *soak) {
  int from = soak->n / 2, bad = 0;
  for (int g = 0; g < N_GAUGES; g++) {
    double rise = slope(samples, from, soak->n, (gauge)g) * (soak->n - from);
    bool flat = rise <= allowed_rise[g] || (!LIBC_MALLOC && (g == RSS || g == HEAP));
    printf("%s %-10s %.1f at the end, the line fitted to the last %d rounds rises by %.2f\n",
           flat ? "ok  " : "FAIL", gauge_names[g], samples[soak->n - 1].values[g], soak->n - from,
           rise);
    bad += !flat;
  }
  return bad;
}

static bool write_csv(const soak *soak) {
  FILE *file = fopen(soak->csv, "w");
  if (!file) return false;
  fprintf(file, "seconds");
  for (int g = 0; g < N_GAUGES; g++) fprintf(file, ",%s", gauge_names[g]);
  for (int i = 0; i < soak->n; i++) {
    fprintf(file, "\n%.3f", samples[i].seconds);
    for (int g = 0; g < N_GAUGES; g++) fprintf(file, ",%.1f", samples[i].values[g]);
  }
  fprintf(file, "\n");
  return fclose(file) == 0;
}

static bool parse_options(int argc, char **argv, soak *soak) {
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!strcmp(argv[i], "--device"))
      soak->device = argv[i + 1];
    else if (!strcmp(argv[i], "--seconds"))
      soak->seconds = atof(argv[i + 1]);
    else if (!strcmp(argv[i], "--scratch"))
      soak->scratch = argv[i + 1];
    else if (!strcmp(argv[i], "--csv"))
      soak->csv = argv[i + 1];
    else
      return false;
  }
  return argc % 2 && soak->device && soak->scratch;
}

int main(int argc, char **argv) {
  soak soak = {.seconds = 60};
  if (!parse_options(argc, argv, &soak)) {
    fprintf(stderr, "usage: soak --device D --scratch FILE [--seconds S] [--csv FILE]\n");
    return 2;
  }
  bool right = run_rounds(&soak);
  int bad = !right;
  if (right) bad = judge(&soak);
  if (right && soak.csv && !write_csv(&soak)) {
    printf("FAIL %s: cannot be written\n", soak.csv);
    bad++;
  }
  printf("%s: %d rounds in %.0f s\n%d passed, %d failed\n", soak.device, soak.n,
         soak.n ? samples[soak.n - 1].seconds : 0, right ? N_GAUGES + 1 - bad : 0, bad);
  return bad != 0;
}
