#ifndef TOKENIZER_IDS_H
#define TOKENIZER_IDS_H
/* A growing list of ids. As in base/memory.h's text, `failed` is set after a failed append. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct id_list {
  uint32_t *items; /* owned */
  size_t count, capacity;
  bool failed;
} id_list;
void id_list_append(id_list *list, uint32_t id);
void id_list_free(id_list *list);

#endif
