/* The pool visits every index once, with any number of threads, also in nested loops. A small loop
 * has little overhead. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/threads.h"

enum { N = 10007 };

typedef struct count {
  thread_pool *pool;
  int64_t grain, n;
  int *visits;
  int wrong;
} count;

static void visit(void *ctx, int64_t begin, int64_t end) {
  count *count = ctx;
  if (end <= begin || end > count->n || (begin % count->grain) ||
      (end != count->n && (end - begin) % count->grain)) {
    __atomic_store_n(&count->wrong, 1, __ATOMIC_RELAXED);
  }
  for (int64_t i = begin; i < end; i++) __atomic_fetch_add(&count->visits[i], 1, __ATOMIC_RELAXED);
}

static void check_loop(thread_pool *pool, int64_t n, int64_t grain) {
  count count = {pool, grain, n, calloc(N + 1, sizeof(int)), 0};
  thread_pool_for(pool, n, grain, visit, &count);
  for (int64_t i = 0; i < n; i++) assert_int_equal(count.visits[i], 1);
  assert_int_equal(count.visits[n < 0 ? 0 : n], 0);
  assert_int_equal(count.wrong, 0);
  free(count.visits);
}

static void test_covers_all(void **state) {
  (void)state;
  for (int threads = 1; threads <= 5; threads++) {
    thread_pool *pool;
    assert_null(thread_pool_create(threads, &pool));
    assert_int_equal(thread_pool_size(pool), threads);
    const int64_t sizes[] = {0, 1, 2, 63, 64, 65, 1000, N}, grains[] = {1, 3, 64, 20000};
    for (int repeat = 0; repeat < 20; repeat++) {
      for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (size_t g = 0; g < sizeof grains / sizeof *grains; g++)
          check_loop(pool, sizes[i], grains[g]);
      }
    }
    thread_pool_destroy(pool);
  }
}

static void nest(void *ctx, int64_t begin, int64_t end) {
  count *counted = ctx;
  count inner = *counted;
  inner.n = 100;
  for (int64_t i = begin; i < end; i++) {
    inner.visits = counted->visits + i * 100;
    thread_pool_for(counted->pool, 100, 1, visit, &inner);
  }
}

static void test_nested(void **state) {
  (void)state;
  thread_pool *pool;
  assert_null(thread_pool_create(4, &pool));
  count count = {pool, 1, 100, calloc(100 * 100, sizeof(int)), 0};
  thread_pool_for(pool, 100, 1, nest, &count);
  for (int i = 0; i < 100 * 100; i++) assert_int_equal(count.visits[i], 1);
  free(count.visits);
  thread_pool_destroy(pool);
}

static void *call_often(void *arg) {
  int visits[256] = {0};
  count count = {arg, 1, 256, visits, 0};
  for (int i = 0; i < 2000; i++) thread_pool_for(count.pool, 256, 1, visit, &count);
  for (int i = 0; i < 256; i++) {
    if (visits[i] != 2000) return arg;
  }
  return NULL;
}

static void test_several_callers(void **state) {
  (void)state;
  thread_pool *pool;
  assert_null(thread_pool_create(3, &pool));
  pthread_t t[4];
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&t[i], NULL, call_often, pool), 0);
  for (int i = 0; i < 4; i++) {
    void *wrong;
    (void)pthread_join(t[i], &wrong);
    assert_null(wrong);
  }
  thread_pool_destroy(pool);
}

static void test_environment(void **state) {
  (void)state;
  thread_pool *pool;
  setenv("CLAVE_THREADS", "3", 1);
  assert_null(thread_pool_create(0, &pool));
  assert_int_equal(thread_pool_size(pool), 3);
  thread_pool_destroy(pool);
  const char *const bad[] = {"0", "-1", "two", "2x", " 2", "99999", "99999999999999999999"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    setenv("CLAVE_THREADS", bad[i], 1);
    clave_status st = thread_pool_create(0, &pool);
    assert_int_equal(status_code_of(st), STATUS_INVALID);
    assert_non_null(strstr(status_message(st), bad[i]));
    assert_null(pool);
    status_free(st);
  }
  unsetenv("CLAVE_THREADS");
  assert_null(thread_pool_create(0, &pool));
  assert_true(thread_pool_size(pool) >= 1);
  thread_pool_destroy(pool);
  thread_pool_destroy(NULL);
}

static void count_up(void *ctx) {
  sigset_t blocked;
  (void)pthread_sigmask(SIG_SETMASK, NULL, &blocked);
  __atomic_fetch_add((int *)ctx, 1 + !sigismember(&blocked, SIGINT), __ATOMIC_RELAXED);
}

typedef struct blocked {
  pthread_t caller;
  int of_workers, wrong;
} blocked;

static void note_blocked(void *ctx, int64_t begin, int64_t end) {
  blocked *blocked = ctx;
  sigset_t set;
  (void)begin;
  (void)end;
  (void)pthread_sigmask(SIG_SETMASK, NULL, &set);
  bool worker = !pthread_equal(pthread_self(), blocked->caller);
  if (worker) __atomic_fetch_add(&blocked->of_workers, 1, __ATOMIC_RELAXED);
  if (sigismember(&set, SIGINT) != worker || sigismember(&set, SIGSEGV))
    __atomic_store_n(&blocked->wrong, 1, __ATOMIC_RELAXED);
  (void)usleep(1000); /* so that workers get some */
}

/* Workers block signals, so that a signal to the process is delivered to one of its own threads. */
static void test_signals(void **state) {
  (void)state;
  thread_pool *pool;
  blocked blocked = {.caller = pthread_self()};
  assert_null(thread_pool_create(4, &pool));
  for (int i = 0; i < 100 && blocked.of_workers < 3; i++)
    thread_pool_for(pool, 16, 1, note_blocked, &blocked);
  assert_true(blocked.of_workers >= 3);
  assert_false(blocked.wrong);
  thread_pool_destroy(pool);
}

static void test_threads(void **state) {
  (void)state;
  thread *threads[3];
  int count = 0;
  sigset_t blocked;
  for (int i = 0; i < 3; i++) assert_null(thread_create(count_up, &count, &threads[i]));
  for (int i = 0; i < 3; i++) thread_join(threads[i]);
  thread_join(NULL);
  assert_int_equal(count, 3); /* signals are blocked there, */
  (void)pthread_sigmask(SIG_SETMASK, NULL, &blocked);
  assert_false(sigismember(&blocked, SIGINT)); /* and not here */
}

typedef struct shared_lock {
  mutex *lock;
  int64_t waited_ns;
  bool got;
} shared_lock;

static void lock_within(void *ctx) {
  shared_lock *lock = ctx;
  int64_t start = clock_ns();
  lock->got = mutex_lock_within(lock->lock, 30);
  lock->waited_ns = clock_ns() - start;
  if (lock->got) mutex_unlock(lock->lock);
}

static void test_lock_within(void **state) {
  (void)state;
  shared_lock lock = {0};
  assert_null(mutex_create(&lock.lock));
  for (int held = 0; held < 2; held++) {
    thread *thread;
    if (held) mutex_lock(lock.lock);
    assert_null(thread_create(lock_within, &lock, &thread));
    thread_join(thread);
    assert_int_equal(lock.got, !held);
  }
  assert_true(lock.waited_ns >= 20000000);
  mutex_unlock(lock.lock);
  mutex_destroy(lock.lock);
}

static int once_count;
static void count_once(void) { once_count++; }

static void test_once(void **state) {
  (void)state;
  static once once;
  once_run(&once, count_once);
  once_run(&once, count_once);
  assert_int_equal(once_count, 1);
}

static void open_later(void *ctx) {
  wait_event *event = ctx;
  (void)usleep(20000);
  wait_event_set(event, true);
}

/* An event is unset until it is set, and again after it is cleared, for any number of waiters. */
static void test_wait_event(void **state) {
  (void)state;
  wait_event *event;
  thread *thread;
  assert_null(wait_event_create(&event));
  for (int round = 0; round < 2; round++) {
    assert_false(wait_event_wait(event, 0));
    assert_false(wait_event_wait(event, 5));
    assert_null(thread_create(open_later, event, &thread));
    assert_true(thread_is_here(thread));
    assert_true(wait_event_wait(event, round ? 10000 : -1));
    assert_true(wait_event_wait(event, 0));
    thread_join(thread);
    wait_event_set(event, false);
  }
  wait_event_destroy(event);
  wait_event_destroy(NULL);
}

typedef struct meeting {
  int arrived;
  int64_t first[2]; /* first index of the caller [0] and of the worker [1] */
  pthread_t caller;
} meeting;

/* Waits at most a second for the other thread. */
static void meet(void *ctx, int64_t begin, int64_t end) {
  meeting *meeting = ctx;
  (void)end;
  if (__atomic_fetch_add(&meeting->arrived, 1, __ATOMIC_ACQ_REL) < 2)
    meeting->first[!pthread_equal(pthread_self(), meeting->caller)] = begin;
  const int64_t stop = clock_ns() + 1000000000;
  while (__atomic_load_n(&meeting->arrived, __ATOMIC_ACQUIRE) < 2 && clock_ns() < stop)
    (void)usleep(10);
}

/* A worker that sleeps is woken for every loop. Each thread begins with its own part of the range,
 * the same each time. */
static void test_own_parts(void **state) {
  (void)state;
  thread_pool *pool;
  assert_null(thread_pool_create(2, &pool));
  for (int round = 0; round < 40; round++) {
    meeting meeting = {.first = {-1, -1}, .caller = pthread_self()};
    if (round % 2) (void)usleep(1000); /* longer than it spins */
    thread_pool_for(pool, 64, 8, meet, &meeting);
    assert_int_equal(meeting.first[0], 0);
    assert_int_equal(meeting.first[1], 32);
  }
  thread_pool_destroy(pool);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_wait_event),  cmocka_unit_test(test_covers_all),
      cmocka_unit_test(test_nested),      cmocka_unit_test(test_several_callers),
      cmocka_unit_test(test_environment), cmocka_unit_test(test_once),
      cmocka_unit_test(test_threads),     cmocka_unit_test(test_lock_within),
      cmocka_unit_test(test_signals),     cmocka_unit_test(test_own_parts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
