/* The vocabulary: all bytes in one arena, and an open-addressing hash table of ids. */
#include "tokenizer/vocab.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

typedef struct entry {
  uint32_t start, size; /* in bytes; start VOCAB_NONE: no such id */
} entry;

enum { ID_BITS = 22 };
typedef uint32_t slot; /* FREE, or an id with 10 bits of the piece's hash above it, never all set */
#define FREE UINT32_MAX
#define ID_OF(slot) ((slot) & (VOCAB_MAX - 1))
_Static_assert(VOCAB_MAX == 1 << ID_BITS, "an id fits into a slot");

struct vocab {
  char *bytes; /* owned */
  size_t n_bytes, cap_bytes;
  entry *entries; /* (count), owned */
  uint32_t count;
  size_t cap_entries;
  slot *slots; /* (mask + 1), owned; at most half are taken */
  uint32_t mask, n_taken;
};

static slot tag_of(uint64_t hash) { return (slot)((hash >> 32) % 1023) << ID_BITS; }

static slot *new_slots(uint32_t count) {
  slot *slot = malloc(count * sizeof *slot);
  if (slot) memset(slot, 0xFF, count * sizeof *slot);
  return slot;
}

clave_status vocab_create(uint32_t n_expected, vocab **out) {
  if (n_expected > VOCAB_MAX) n_expected = VOCAB_MAX;
  vocab *vocab = *out = calloc(1, sizeof *vocab);
  if (!vocab) return status_no_memory();
  uint32_t n_slots = 64;
  while (n_slots < n_expected * 2) n_slots *= 2;
  vocab->mask = n_slots - 1;
  vocab->slots = new_slots(n_slots);
  if (vocab->slots &&
      array_reserve(&vocab->entries, &vocab->cap_entries, n_expected, sizeof *vocab->entries))
    return NULL;
  vocab_destroy(vocab);
  *out = NULL;
  return status_no_memory();
}

void vocab_destroy(vocab *vocab) {
  if (!vocab) return;
  free(vocab->bytes);
  free(vocab->entries);
  free(vocab->slots);
  free(vocab);
}

uint32_t vocab_size(const vocab *vocab) { return vocab->count; }

bool vocab_has(const vocab *vocab, uint32_t id) {
  return id < vocab->count && vocab->entries[id].start != VOCAB_NONE;
}

span vocab_piece(const vocab *vocab, uint32_t id) {
  if (!vocab_has(vocab, id)) return (span){0};
  return (span){vocab->bytes + vocab->entries[id].start, vocab->entries[id].size};
}

/* Returns the slot of a piece, or the free slot where it belongs. */
static slot *vocab_find_slot(const vocab *vocab, span piece, uint64_t hash) {
  slot tag = tag_of(hash);
  for (uint32_t i = (uint32_t)hash & vocab->mask;; i = (i + 1) & vocab->mask) {
    slot s = vocab->slots[i];
    if (s == FREE) return &vocab->slots[i];
    if ((s & ~(slot)(VOCAB_MAX - 1)) != tag) continue;
    entry entry = vocab->entries[ID_OF(s)];
    if (entry.size == piece.size && memcmp(vocab->bytes + entry.start, piece.data, entry.size) == 0)
      return &vocab->slots[i];
  }
}

uint32_t vocab_find(const vocab *vocab, span piece) {
  if (vocab->n_taken == 0 || piece.size > VOCAB_MAX_PIECE) return VOCAB_NONE;
  slot slot = *vocab_find_slot(vocab, piece, hash_bytes(piece.data, piece.size));
  return slot == FREE ? VOCAB_NONE : ID_OF(slot);
}

static bool grow_entries(vocab *vocab, uint32_t id) {
  if (!array_reserve(&vocab->entries, &vocab->cap_entries, (size_t)id + 1, sizeof *vocab->entries))
    return false;
  for (; vocab->count <= id; vocab->count++)
    vocab->entries[vocab->count] = (entry){.start = VOCAB_NONE};
  return true;
}

static bool grow_bytes(vocab *vocab, size_t n) {
  return array_reserve(&vocab->bytes, &vocab->cap_bytes, vocab->n_bytes + n, 1);
}

static bool grow_slots(vocab *vocab) {
  if (vocab->n_taken < (vocab->mask + 1) / 2) return true;
  slot *old = vocab->slots, *grown = new_slots((vocab->mask + 1) * 2);
  if (!grown) return false;
  uint32_t n_old = vocab->mask + 1;
  vocab->slots = grown;
  vocab->mask = n_old * 2 - 1;
  for (uint32_t i = 0; i < n_old; i++) {
    if (old[i] == FREE) continue;
    span piece = vocab_piece(vocab, ID_OF(old[i]));
    *vocab_find_slot(vocab, piece, hash_bytes(piece.data, piece.size)) = old[i];
  }
  free(old);
  return true;
}

clave_status vocab_add(vocab *vocab, uint32_t id, span piece, bool *is_new) {
  if (id >= VOCAB_MAX)
    return INVALID("id %u is too large: expected an id below %u", id, (unsigned)VOCAB_MAX);
  if (piece.size > VOCAB_MAX_PIECE)
    return INVALID("token %u has %zu bytes: expected at most %u", id, piece.size,
                   (unsigned)VOCAB_MAX_PIECE);
  if (vocab_has(vocab, id)) return INVALID("id %u is given twice", id);
  if (vocab->n_bytes + piece.size >= UINT32_MAX) return INVALID("the tokens have more than 4 GiB");
  if (!grow_entries(vocab, id) || !grow_bytes(vocab, piece.size + 1) || !grow_slots(vocab))
    return status_no_memory();
  vocab->entries[id] = (entry){(uint32_t)vocab->n_bytes, (uint32_t)piece.size};
  if (piece.size > 0) memcpy(vocab->bytes + vocab->n_bytes, piece.data, piece.size);
  vocab->n_bytes += piece.size;
  uint64_t hash = hash_bytes(piece.data, piece.size);
  slot *slot = vocab_find_slot(vocab, piece, hash);
  bool fresh = *slot == FREE;
  if (fresh) {
    *slot = tag_of(hash) | id;
    vocab->n_taken++;
  }
  if (is_new) *is_new = fresh;
  return NULL;
}
