/* The growing list of ids. */
#include "tokenizer/ids.h"

#include <stdlib.h>

#include "base/checked.h"

static bool grow_ids(id_list *l) {
  size_t capacity = l->capacity ? l->capacity * 2 : 64, bytes;
  if (!mul_size(capacity, sizeof *l->items, &bytes)) return false;
  uint32_t *items = realloc(l->items, bytes);
  if (!items) return false;
  l->items = items;
  l->capacity = capacity;
  return true;
}

void id_list_append(id_list *l, uint32_t id) {
  if (l->failed) return;
  if (l->count == l->capacity && !grow_ids(l)) {
    l->failed = true;
    return;
  }
  l->items[l->count++] = id;
}

void id_list_free(id_list *l) {
  free(l->items);
  *l = (id_list){0};
}
