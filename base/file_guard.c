/* The guard of mapped files: a table of mappings, and the SIGBUS handler that reads it. */
#include "base/file_guard.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MAX_GUARDS = 256, MAX_HANDLERS = 8 };

struct file_guard {
  atomic_uintptr_t start; /* 0 if free */
  atomic_size_t size;
  atomic_bool is_cut;
  volatile bool *_Atomic reported; /* set with is_cut, or NULL. Borrowed, outlives the guard. */
};

/* The handler reads only these variables. It takes no lock and allocates nothing. */
static file_guard guards[MAX_GUARDS];
static atomic_int n_used; /* entries from this one on were never used */
static uintptr_t page;

/* The actions of SIGBUS that ours replaced: the first, then each handler that the process set
 * later. */
static struct sigaction before[MAX_HANDLERS];
static atomic_int n_before;
static atomic_int holder; /* a lock that the handler never takes: the process that holds it, or 0 */
static int n_guards;

/* Another handler may call ours again for a fault that ours passed to it; such a fault goes to an
 * older handler. Each entry is a call in progress, by thread and stack frame. A handler that leaves
 * by longjmp does not free its entry; count_passing does. */
enum { MAX_THREADS = 32 };
static struct {
  atomic_long thread; /* 0 if free */
  atomic_uintptr_t frame;
} passing[MAX_THREADS];

/* Returns how many outer frames of this thread are passing a fault on, and frees entries of frames
 * that have ended. */
static int count_passing(long thread, uintptr_t frame) {
  int n = 0;
  for (int i = 0; i < MAX_THREADS; i++) {
    if (atomic_load(&passing[i].thread) != thread) continue;
    if (atomic_load(&passing[i].frame) > frame)
      n++;
    else
      atomic_store(&passing[i].thread, 0);
  }
  return n;
}

static int begin_passing(long thread, uintptr_t frame) {
  for (int i = 0; i < MAX_THREADS; i++) {
    long nobody = 0;
    if (!atomic_compare_exchange_strong(&passing[i].thread, &nobody, -thread)) continue;
    atomic_store(&passing[i].frame, frame);
    atomic_store(&passing[i].thread, thread);
    return i;
  }
  return -1;
}

static void end_passing(int entry) {
  if (entry >= 0) atomic_store(&passing[entry].thread, 0);
}

file_guard *file_guard_of(const void *byte) {
  const uintptr_t at = (uintptr_t)byte;
  const int n = atomic_load(&n_used);
  for (int i = 0; i < n; i++) {
    const uintptr_t start = atomic_load(&guards[i].start);
    if (start && at >= start && at - start < atomic_load(&guards[i].size)) return &guards[i];
  }
  return NULL;
}

/* Maps zeros from the page of the fault to the end of the mapping, because a file is truncated at
 * its end. The zeros are writable, as a host's own mapping may be. */
static bool put_zeros(file_guard *guard, uintptr_t at) {
  const uintptr_t first = at - at % page,
                  end = atomic_load(&guard->start) + atomic_load(&guard->size);
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
  if (mmap((void *)first, end - first, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED)
    return false;
  atomic_store(&guard->is_cut, true);
  volatile bool *reported = atomic_load(&guard->reported);
  if (reported) *reported = true;
  return true;
}

/* Passes a fault that is not ours to the action that was installed before ours. If that is the
 * default action, the fault occurs again and ends the process. */
static void pass_on(int number, siginfo_t *info, void *context) {
  const long thread = syscall(SYS_gettid);
  const uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
  const int last = atomic_load(&n_before) - 1 - count_passing(thread, frame);
  const struct sigaction *to = &before[last > 0 ? last : 0];
  const bool is_sent = info->si_code <= 0, has_info = (to->sa_flags & SA_SIGINFO) != 0;
  if (has_info || (to->sa_handler != SIG_DFL && to->sa_handler != SIG_IGN)) {
    const int entry = begin_passing(thread, frame);
    if (has_info)
      to->sa_sigaction(number, info, context);
    else
      to->sa_handler(number);
    end_passing(entry);
  } else if (to->sa_handler == SIG_DFL || !is_sent) {
    (void)signal(number, SIG_DFL);
    if (is_sent) (void)raise(number);
  }
}

static void file_guard_handle(int number, siginfo_t *info, void *context) {
  const int error = errno;
  const uintptr_t at = (uintptr_t)info->si_addr;
  file_guard *guard = info->si_code == BUS_ADRERR ? file_guard_of(info->si_addr) : NULL;
  if (!guard || !put_zeros(guard, at)) pass_on(number, info, context);
  errno = error;
}

/* A forked child may inherit the lock from another thread of its parent. No thread of the child
 * will release it, so the child takes it over: the tables are usable after every step that is made
 * under the lock. */
static void acquire_lock(void) {
  const int own = (int)getpid();
  for (int found = 0; !atomic_compare_exchange_strong(&holder, &found, own);)
    if (found == own) {
      (void)usleep(50);
      found = 0;
    }
}
static void release_lock(void) { atomic_store(&holder, 0); }

static bool is_ours(const struct sigaction *action) {
  return (action->sa_flags & SA_SIGINFO) && action->sa_sigaction == file_guard_handle;
}

static bool file_guard_is_same(const struct sigaction *left, const struct sigaction *right) {
  const int own = SA_SIGINFO;
  if ((left->sa_flags & own) != (right->sa_flags & own)) return false;
  return left->sa_flags & own ? left->sa_sigaction == right->sa_sigaction
                              : left->sa_handler == right->sa_handler;
}

/* Installs our handler and keeps the present one as the next to call. */
static bool install_handler(void) {
  struct sigaction now, own = {.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
  const int n = atomic_load(&n_before);
  if (sigaction(SIGBUS, NULL, &now) != 0) return false;
  if (is_ours(&now)) return true;
  const bool is_known = n > 0 && file_guard_is_same(&now, &before[n - 1]);
  if (!is_known) {
    const int at = n < MAX_HANDLERS ? n : MAX_HANDLERS - 1; /* keeps the first and latest */
    before[at] = now;
    atomic_store(&n_before, at + 1);
  }
  own.sa_mask = now.sa_mask;
  own.sa_sigaction = file_guard_handle;
  own.sa_flags |= now.sa_flags & SA_NODEFER;
  return sigaction(SIGBUS, &own, NULL) == 0;
}

/* Restores the action of SIGBUS that ours replaced last. Does nothing if the process has set
 * another handler since, because that handler may call ours. */
static void restore_handler(void) {
  struct sigaction now;
  const int n = atomic_load(&n_before);
  if (n == 0 || sigaction(SIGBUS, NULL, &now) != 0 || !is_ours(&now)) return;
  if (sigaction(SIGBUS, &before[n - 1], NULL) == 0) atomic_store(&n_before, n - 1);
}

file_guard *file_guard_add(const void *start, size_t size) {
  file_guard *guard = NULL;
  acquire_lock();
  if (!page) page = (uintptr_t)sysconf(_SC_PAGESIZE);
  for (int i = 0; i < MAX_GUARDS && !guard; i++)
    if (!atomic_load(&guards[i].start)) guard = &guards[i];
  if (guard && install_handler()) {
    n_guards++;
    if (guard - guards >= atomic_load(&n_used)) atomic_store(&n_used, (int)(guard - guards) + 1);
    atomic_store(&guard->size, (size + page - 1) / page * page);
    atomic_store(&guard->is_cut, false);
    atomic_store(&guard->reported, NULL);
    atomic_store(&guard->start, (uintptr_t)start);
  } else {
    guard = NULL;
  }
  release_lock();
  return guard;
}

void file_guard_remove(file_guard *guard) {
  if (!guard) return;
  acquire_lock();
  atomic_store(&guard->start, 0);
  if (--n_guards == 0) restore_handler();
  release_lock();
}

void file_guard_renew(void) {
  acquire_lock();
  if (n_guards) (void)install_handler();
  release_lock();
}

void file_guard_notify(file_guard *guard, volatile bool *is_cut) {
  atomic_store(&guard->reported, is_cut);
}
bool file_guard_is_cut(const file_guard *guard) { return atomic_load(&guard->is_cut); }
