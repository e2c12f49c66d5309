/* Marks on disk of programs that may crash a driver. While a program is being tried, its mark names
 * a file that its process keeps locked; the lock ends with the process, however it ends. */
#include "backend/opencl/program/marks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/process.h"

enum { DAY_S = 86400 };
static const char ending[] = ".mark", sign_stem[] = "alive-";
static const char refused[] = "refused", accepted[] = "accepted", building[] = "building ",
                  loading[] = "loading ";

struct life_sign {
  char name[64];
  char *path; /* owned */
  file_lock *lock;
};

static char *marks_path(const char *folder, const uint64_t key[2]) {
  char name[64];
  (void)snprintf(name, sizeof name, "%016" PRIx64 "%016" PRIx64 "%s", key[0], key[1], ending);
  return path_join(folder, name);
}

/* ---------------------------------------------------------------- life signs */

life_sign *life_sign_create(const char *folder) {
  life_sign *sign = calloc(1, sizeof *sign);
  if (!sign) return NULL;
  (void)snprintf(sign->name, sizeof sign->name, "%s%ld-%" PRId64, sign_stem, process_id(),
                 clock_ns());
  sign->path = path_join(folder, sign->name);
  if (sign->path && file_lock_take(sign->path, 0, &sign->lock)) return sign;
  life_sign_destroy(sign);
  return NULL;
}

void life_sign_destroy(life_sign *sign) {
  if (!sign) return;
  if (sign->lock) (void)file_remove(sign->path);
  file_lock_release(sign->lock);
  free(sign->path);
  free(sign);
}

static bool is_alive(const char *folder, const char *name) {
  if (strncmp(name, sign_stem, sizeof sign_stem - 1) != 0 || strchr(name, '/')) return false;
  char *path = path_join(folder, name);
  const bool is_held = path && file_lock_is_held(path);
  if (path && !is_held) (void)file_remove(path);
  free(path);
  return is_held;
}

/* ---------------------------------------------------------------- marks */

/* Copies a line without its line end. Returns the start of the next line. */
static const char *copy_line(const char *at, const char *end, char *line, size_t size) {
  const char *stop = memchr(at, '\n', (size_t)(end - at));
  size_t n = (size_t)((stop ? stop : end) - at);
  if (n >= size) n = size - 1;
  memcpy(line, at, n);
  line[n] = 0;
  return stop ? stop + 1 : end;
}

/* Reads what follows the name of a life sign, and cuts it off: how many processes have tried the
 * program, and when the last one began. */
static void read_attempts(char *sign, found_mark *found) {
  char *at = sign + strcspn(sign, " ");
  if (!*at) return;
  *at++ = 0;
  found->tries = (int)strtol(at, &at, 10) & 31;
  const long long days = ((long long)time(NULL) - strtoll(at, NULL, 10)) / DAY_S;
  found->is_expired = found->tries > 0 && days >= 1LL << (found->tries - 1);
}

found_mark mark_find(const char *folder, const uint64_t key[2]) {
  found_mark found = {.state = MARK_NONE};
  char *path = marks_path(folder, key), state[128], program[256];
  file_map map = {0};
  clave_status st = path && file_exists(path) ? file_map_open(path, &map) : NULL;
  if (!st && map.size) {
    const char *at = (const char *)map.data, *end = at + map.size;
    at = copy_line(at, end, state, sizeof state);
    at = copy_line(at, end, program, sizeof program);
    (void)copy_line(at, end, found.reason, sizeof found.reason);
    char *sign = strchr(state, ' ');
    if (sign) read_attempts(sign + 1, &found);
    found.is_load = strncmp(state, loading, sizeof loading - 1) == 0;
    const bool is_trial = found.is_load || strncmp(state, building, sizeof building - 1) == 0;
    found.state = strcmp(state, refused) == 0          ? MARK_REFUSED
                  : strcmp(state, accepted) == 0       ? MARK_ACCEPTED
                  : !is_trial                          ? MARK_NONE /* the file is damaged */
                  : sign && is_alive(folder, sign + 1) ? MARK_LIVE
                                                       : MARK_DEAD;
  }
  status_free(st);
  file_map_close(&map);
  free(path);
  return found;
}

static bool write_mark(const char *folder, const uint64_t key[2], const text *lines) {
  char *path = marks_path(folder, key);
  clave_status st = path ? text_status(lines) : status_no_memory();
  if (!st) st = file_write(path, lines->data, lines->size);
  free(path);
  const bool good = !st;
  status_free(st);
  return good;
}

bool mark_try(const char *folder, const uint64_t key[2], const life_sign *sign,
              const found_mark *before, bool is_load, const char *program) {
  text lines = {0};
  text_printf(&lines, "%s%s %d %lld\n%s\n", is_load ? loading : building, sign->name,
              before->tries + 1, (long long)time(NULL), program);
  const bool good = write_mark(folder, key, &lines);
  text_free(&lines);
  return good;
}

/* Writes a mark that lasts. If this fails, the next process tries the program again. */
static void settle(const char *folder, const uint64_t key[2], const char *state,
                   const char *program, const char *reason) {
  text lines = {0};
  text_printf(&lines, "%s\n%s\n%s\n", state, program, reason);
  (void)write_mark(folder, key, &lines);
  text_free(&lines);
}

void mark_refuse(const char *folder, const uint64_t key[2], const char *program,
                 const char *reason) {
  settle(folder, key, refused, program, reason);
}

void mark_accept(const char *folder, const uint64_t key[2], const char *program) {
  settle(folder, key, accepted, program, "");
}

void mark_remove(const char *folder, const uint64_t key[2]) {
  char *path = marks_path(folder, key);
  if (path) (void)file_remove(path);
  free(path);
}

static bool is_of_marks(const char *folder, const char *name) {
  if (strncmp(name, sign_stem, sizeof sign_stem - 1) == 0) return !is_alive(folder, name);
  return path_has_ending(name, ending);
}

uint64_t marks_clear(const char *folder) {
  folder_entry *entries;
  size_t n;
  uint64_t removed = 0;
  clave_status st = folder_list(folder, &entries, &n);
  for (size_t i = 0; !st && i < n; i++) {
    char *path = is_of_marks(folder, entries[i].name) ? path_join(folder, entries[i].name) : NULL;
    if (path && file_remove(path)) removed += entries[i].size;
    free(path);
  }
  if (!st) folder_list_free(entries, n);
  status_free(st);
  return removed;
}
