/* The vocabulary: all bytes in one arena, ids in a table of open addressing. */
#include "tokenizer/vocab.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

typedef struct entry {
  uint32_t start, size; /* in bytes; start VOCAB_NONE: no such id */
} entry;

enum { ID_BITS = 22 };
typedef uint32_t slot; /* an id, above it 10 bits of the piece's hash, not all of them set; FREE */
#define FREE UINT32_MAX
#define ID_OF(slot) ((slot) & (VOCAB_MAX - 1))
_Static_assert(VOCAB_MAX == 1 << ID_BITS, "an id fits into a slot");

struct vocab {
  char *bytes; /* owned */
  size_t n_bytes, cap_bytes;
  entry *entries; /* (count), owned */
  uint32_t count;
  size_t cap_entries;
  slot *slots; /* (mask + 1), owned; at most half of them taken */
  uint32_t mask, n_taken;
};

static slot tag_of(uint64_t hash) { return (slot)((hash >> 32) % 1023) << ID_BITS; }

static slot *new_slots(uint32_t count) {
  slot *s = malloc(count * sizeof *s);
  if (s) memset(s, 0xFF, count * sizeof *s);
  return s;
}

clave_status vocab_create(uint32_t n_expected, vocab **out) {
  if (n_expected > VOCAB_MAX) n_expected = VOCAB_MAX;
  vocab *v = *out = calloc(1, sizeof *v);
  if (!v) return status_no_memory();
  uint32_t n_slots = 64;
  while (n_slots < n_expected * 2) n_slots *= 2;
  v->mask = n_slots - 1;
  v->slots = new_slots(n_slots);
  if (v->slots && array_reserve(&v->entries, &v->cap_entries, n_expected, sizeof *v->entries))
    return NULL;
  vocab_destroy(v);
  *out = NULL;
  return status_no_memory();
}

void vocab_destroy(vocab *v) {
  if (!v) return;
  free(v->bytes);
  free(v->entries);
  free(v->slots);
  free(v);
}

uint32_t vocab_size(const vocab *v) { return v->count; }

bool vocab_has(const vocab *v, uint32_t id) {
  return id < v->count && v->entries[id].start != VOCAB_NONE;
}

span vocab_piece(const vocab *v, uint32_t id) {
  if (!vocab_has(v, id)) return (span){0};
  return (span){v->bytes + v->entries[id].start, v->entries[id].size};
}

/* The slot of a piece, or the free one where it would go. */
static slot *find_slot(const vocab *v, span piece, uint64_t hash) {
  slot tag = tag_of(hash);
  for (uint32_t i = (uint32_t)hash & v->mask;; i = (i + 1) & v->mask) {
    slot s = v->slots[i];
    if (s == FREE) return &v->slots[i];
    if ((s & ~(slot)(VOCAB_MAX - 1)) != tag) continue;
    entry e = v->entries[ID_OF(s)];
    if (e.size == piece.size && memcmp(v->bytes + e.start, piece.data, e.size) == 0)
      return &v->slots[i];
  }
}

uint32_t vocab_find(const vocab *v, span piece) {
  if (v->n_taken == 0 || piece.size > VOCAB_MAX_PIECE) return VOCAB_NONE;
  slot s = *find_slot(v, piece, hash_bytes(piece.data, piece.size));
  return s == FREE ? VOCAB_NONE : ID_OF(s);
}

static bool grow_entries(vocab *v, uint32_t id) {
  if (!array_reserve(&v->entries, &v->cap_entries, (size_t)id + 1, sizeof *v->entries))
    return false;
  for (; v->count <= id; v->count++) v->entries[v->count] = (entry){.start = VOCAB_NONE};
  return true;
}

static bool grow_bytes(vocab *v, size_t n) {
  return array_reserve(&v->bytes, &v->cap_bytes, v->n_bytes + n, 1);
}

static bool grow_slots(vocab *v) {
  if (v->n_taken < (v->mask + 1) / 2) return true;
  slot *old = v->slots, *grown = new_slots((v->mask + 1) * 2);
  if (!grown) return false;
  uint32_t n_old = v->mask + 1;
  v->slots = grown;
  v->mask = n_old * 2 - 1;
  for (uint32_t i = 0; i < n_old; i++) {
    if (old[i] == FREE) continue;
    span piece = vocab_piece(v, ID_OF(old[i]));
    *find_slot(v, piece, hash_bytes(piece.data, piece.size)) = old[i];
  }
  free(old);
  return true;
}

clave_status vocab_add(vocab *v, uint32_t id, span piece, bool *is_new) {
  if (id >= VOCAB_MAX) return INVALID("id %u, ids are below %u", id, (unsigned)VOCAB_MAX);
  if (piece.size > VOCAB_MAX_PIECE)
    return INVALID("token %u has %zu bytes, at most %u are", id, piece.size,
                   (unsigned)VOCAB_MAX_PIECE);
  if (vocab_has(v, id)) return INVALID("id %u is given twice", id);
  if (v->n_bytes + piece.size >= UINT32_MAX) return INVALID("more than 4 GiB of tokens");
  if (!grow_entries(v, id) || !grow_bytes(v, piece.size + 1) || !grow_slots(v))
    return status_no_memory();
  v->entries[id] = (entry){(uint32_t)v->n_bytes, (uint32_t)piece.size};
  if (piece.size > 0) memcpy(v->bytes + v->n_bytes, piece.data, piece.size);
  v->n_bytes += piece.size;
  uint64_t hash = hash_bytes(piece.data, piece.size);
  slot *s = find_slot(v, piece, hash);
  bool fresh = *s == FREE;
  if (fresh) {
    *s = tag_of(hash) | id;
    v->n_taken++;
  }
  if (is_new) *is_new = fresh;
  return NULL;
}
