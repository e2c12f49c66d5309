/* The growing list of ids. */
#include "tokenizer/ids.h"

#include <stdlib.h>

#include "base/memory.h"

void id_list_append(id_list *l, uint32_t id) {
  if (l->failed) return;
  if (!array_reserve(&l->items, &l->capacity, l->count + 1, sizeof *l->items)) {
    l->failed = true;
    return;
  }
  l->items[l->count++] = id;
}

void id_list_free(id_list *l) {
  free(l->items);
  *l = (id_list){0};
}
