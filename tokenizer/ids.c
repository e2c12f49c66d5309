/* A growing list of ids. */
#include "tokenizer/ids.h"

#include <stdlib.h>

#include "base/memory.h"

void id_list_append(id_list *list, uint32_t id) {
  if (list->failed) return;
  if (!array_reserve(&list->items, &list->capacity, list->count + 1, sizeof *list->items)) {
    list->failed = true;
    return;
  }
  list->items[list->count++] = id;
}

void id_list_free(id_list *list) {
  free(list->items);
  *list = (id_list){0};
}
