/* Handles: ascending numbers that are never reused, in a table sorted by them. A number that a host
 * made up, or kept too long, is therefore not found. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "delegate/objects.h"

typedef struct entry {
  clave_delegate_handle handle; /* serial << KIND_BITS | kind */
  object *object;
} entry;

enum { KIND_BITS = 2 };

static struct {
  atomic_flag lock; /* held for a search or a move of entries */
  uint64_t serial;
  entry *entries; /* owned; ascending; freed with the last, so that hosts can unload the library */
  size_t n, capacity;
} table = {.lock = ATOMIC_FLAG_INIT};

static void lock_table(void) {
  while (atomic_flag_test_and_set_explicit(&table.lock, memory_order_acquire)) (void)sched_yield();
}
static void unlock_table(void) { atomic_flag_clear_explicit(&table.lock, memory_order_release); }

static const char *const names[] = {"no handle", "a device", "a program", "an instance"};

/* Returns NULL if there is no such handle. Called with the lock held. */
static entry *handles_find_entry(clave_delegate_handle h) {
  size_t low = 0, high = table.n;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (table.entries[middle].handle < h)
      low = middle + 1;
    else
      high = middle;
  }
  return low < table.n && table.entries[low].handle == h ? &table.entries[low] : NULL;
}

static clave_status no_such(handle_kind kind, clave_delegate_handle h) {
  const char *want = names[kind], *is = names[h & ((1 << KIND_BITS) - 1)];
  if (h == 0) return INVALID("handle 0: expected %s, got none", want);
  if ((handle_kind)(h & ((1 << KIND_BITS) - 1)) != kind)
    return INVALID("handle %llu: expected %s, got %s", (unsigned long long)h, want, is);
  return INVALID("handle %llu is not valid: it was closed before, or never existed",
                 (unsigned long long)h);
}

clave_status handle_create(handle_kind kind, object *object, clave_delegate_handle *out) {
  lock_table();
  const bool reserved = array_reserve(&table.entries, &table.capacity, table.n + 1, sizeof(entry));
  if (reserved) {
    *out = ++table.serial << KIND_BITS | (uint64_t)kind;
    table.entries[table.n++] = (entry){*out, object};
    object->holds++;
  }
  unlock_table();
  return reserved ? NULL : status_no_memory();
}

clave_status handle_acquire(handle_kind kind, clave_delegate_handle h, void *out) {
  object *object = NULL;
  lock_table();
  entry *entry = handles_find_entry(h);
  if (entry && (handle_kind)(h & ((1 << KIND_BITS) - 1)) == kind) {
    object = entry->object;
    object->holds++;
  }
  unlock_table();
  memcpy(out, &object, sizeof object);
  return object ? NULL : no_such(kind, h);
}

static object *remove_entry(handle_kind kind, clave_delegate_handle h) {
  entry *entry = handles_find_entry(h);
  if (!entry || (handle_kind)(h & ((1 << KIND_BITS) - 1)) != kind) return NULL;
  object *object = entry->object;
  memmove(entry, entry + 1, (size_t)(&table.entries[table.n] - (entry + 1)) * sizeof *entry);
  if (--table.n == 0) {
    free(table.entries);
    table.entries = NULL;
    table.capacity = 0;
  }
  return object;
}

clave_status handle_close(handle_kind kind, clave_delegate_handle h) {
  lock_table();
  object *object = remove_entry(kind, h);
  unlock_table();
  if (!object) return no_such(kind, h);
  object_release(object);
  return NULL;
}

void object_release(object *object) {
  if (!object) return;
  lock_table();
  const bool last = --object->holds == 0;
  unlock_table();
  if (last) object->destroy(object);
}

const char *read_name(const char *expression) {
  const char *arrow = strrchr(expression, '>');
  return arrow ? arrow + 1 : expression;
}

clave_status own(clave_status st) {
  if (!st) return NULL;
  clave_status mine =
      status_new((status_code)clave_status_code(st), "%s", clave_status_message(st));
  clave_status_free(st);
  return mine;
}
