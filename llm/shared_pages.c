/* The state of a conversation in pages of a pool: allocated one by one, shared by forks, and copied
 * before they are written if another conversation shares them. Page i begins at token i *
 * page_rows. */
#include <stdlib.h>
#include <string.h>

#include "base/threads.h"
#include "llm/conversation.h"

enum { ROWS_AXIS = 2 }; /* axis of a cache */

static void lock_pool(const clave_llm_conversation *self) { mutex_lock(self->shared->lock); }

static void unlock_pool(const clave_llm_conversation *self) { mutex_unlock(self->shared->lock); }

/* ---------------------------------------------------------------- pages */

/* Makes this conversation the only user of its page i. copied: keeps the page's contents. */
static clave_status own_page(clave_llm_conversation *self, size_t i, bool copied) {
  const clave_llm *llm = self->llm;
  page_pool *pool = self->shared;
  uint32_t old = self->pages[i];
  if (pool->users[old] == 1) return NULL;
  TRY(page_pool_reserve(pool, 1));
  uint32_t page = page_pool_alloc(pool);
  clave_status st = copied ? page_pool_copy(llm, pool, old, page) : NULL;
  self->pages[i] = st ? old : page;
  page_pool_drop(llm, pool, st ? page : old);
  return st;
}

static clave_status shared_pages_reserve_capacity(clave_llm_conversation *self, size_t from,
                                                  size_t to) {
  size_t rows = self->llm->info.page_rows, needed = (to + rows - 1) / rows;
  for (size_t i = from / rows; i < self->n_pages && i < needed; i++)
    TRY(own_page(self, i, i * rows < from));
  if (self->n_pages >= needed) return NULL;
  if (!array_reserve(&self->pages, &self->page_capacity, needed, sizeof *self->pages))
    return status_no_memory();
  TRY(page_pool_reserve(self->shared, needed - self->n_pages));
  while (self->n_pages < needed) self->pages[self->n_pages++] = page_pool_alloc(self->shared);
  return NULL;
}

/* Releases the pages after the first `count` tokens. */
static void keep_pages(clave_llm_conversation *self, size_t count) {
  size_t rows = self->llm->info.page_rows, kept = (count + rows - 1) / rows;
  while (self->n_pages > kept)
    page_pool_drop(self->llm, self->shared, self->pages[--self->n_pages]);
}

static clave_status open_pages(clave_llm_conversation *self) {
  TRY(page_pool_acquire(self->llm, self->options.session, &self->shared));
  self->session = self->shared->session;
  return NULL;
}

static clave_status rewind_pages(clave_llm_conversation *self, size_t count) {
  lock_pool(self);
  keep_pages(self, count);
  unlock_pool(self);
  return NULL;
}

static clave_status clear_pages(clave_llm_conversation *self) { return rewind_pages(self, 0); }

static void close_pages(clave_llm_conversation *self) {
  if (self->shared) status_free(clear_pages(self));
  page_pool_release(self->llm, self->shared);
  free(self->pages);
}

static clave_status share_pages(const clave_llm_conversation *from, clave_llm_conversation *to) {
  lock_pool(to);
  bool fits = array_reserve(&to->pages, &to->page_capacity, from->n_pages, sizeof *to->pages);
  for (; fits && to->n_pages < from->n_pages; to->n_pages++) {
    to->pages[to->n_pages] = from->pages[to->n_pages];
    to->shared->users[to->pages[to->n_pages]]++;
  }
  unlock_pool(to);
  return fits ? NULL : status_no_memory();
}

/* Pages keep all tokens, so a conversation can continue from any of them. */
static clave_status shared_pages_run_again(clave_llm_conversation *self, size_t first) {
  self->n_run = first;
  return NULL;
}

/* ---------------------------------------------------------------- running */

static clave_status run_pages(const llm_method *method, const run_chunk *chunks, size_t n_chunks) {
  const clave_llm_conversation *first = chunks[0].conversation;
  llm_run_chunk *list = calloc(n_chunks, sizeof *list);
  if (!list) return status_no_memory();
  for (size_t i = 0; i < n_chunks; i++) {
    const clave_llm_conversation *self = chunks[i].conversation;
    list[i] = (llm_run_chunk){.ids = self->ids.items + self->n_run,
                              .n = chunks[i].n,
                              .position = self->n_run,
                              .pages = self->pages,
                              .n_pages = self->n_pages,
                              .all_logits = chunks[i].all_logits};
  }
  clave_status st =
      llm_method_run_chunks(method, first->session, list, n_chunks, first->llm->info.page_rows);
  free(list);
  return st;
}

/* Runs the chunks. If memory does not suffice, frees the pool's unused pages and tries again. If
 * that fails, releases the pages of these conversations that the run would have filled, so that the
 * pool is unchanged for the others. */
static clave_status run_within_budget(const llm_method *method, const run_chunk *chunks,
                                      size_t n_chunks) {
  page_pool *pool = chunks[0].conversation->shared;
  clave_status st = run_pages(method, chunks, n_chunks);
  if (status_code_of(st) == STATUS_NO_MEMORY && page_pool_trim(pool)) {
    status_free(st);
    st = run_pages(method, chunks, n_chunks);
  }
  if (status_code_of(st) != STATUS_NO_MEMORY) return st;
  for (size_t i = 0; i < n_chunks; i++)
    keep_pages(chunks[i].conversation, chunks[i].conversation->n_run);
  (void)page_pool_trim(pool);
  return st;
}

/* ---------------------------------------------------------------- state in files */

static clave_status shared_pages_describe_state(const clave_llm_conversation *self, uint32_t index,
                                                clave_tensor_info *info) {
  TRY(clave_program_state(self->llm->program, index, info));
  info->dims[ROWS_AXIS] = CLAVE_DYNAMIC;
  info->min_dims[ROWS_AXIS] = 1;
  return NULL;
}

static int64_t shared_pages_rows_in_file(const clave_llm_conversation *self) {
  return self->n_run ? (int64_t)self->n_run : 1;
}

/* A copy between one page, in which each head has page_rows rows, and the rows from `first` on of a
 * tensor (heads, total rows). */
typedef struct page_copy {
  size_t heads, page_rows, size; /* size: bytes per row */
  size_t total, first, rows;
} page_copy;

static page_copy copy_of(const clave_llm *llm, uint32_t index, size_t total, size_t rows,
                         size_t page) {
  const llm_page_state *state = &llm->page_states[index];
  size_t n = llm->info.page_rows, first = page * n;
  return (page_copy){state->heads, n,     state->row_bytes,
                     total,        first, rows - first < n ? rows - first : n};
}

static void from_page(const page_copy *copy, const char *page, char *all) {
  for (size_t h = 0; h < copy->heads; h++)
    memcpy(all + (h * copy->total + copy->first) * copy->size,
           page + h * copy->page_rows * copy->size, copy->rows * copy->size);
}

static void to_page(const page_copy *copy, const char *all, char *page) {
  for (size_t h = 0; h < copy->heads; h++)
    memcpy(page + h * copy->page_rows * copy->size,
           all + (h * copy->total + copy->first) * copy->size, copy->rows * copy->size);
}

/* tensor: (1, heads, rows, size); rows that have not run are zeroed. */
static clave_status read_pages(const clave_llm_conversation *self, uint32_t index,
                               const clave_tensor *tensor, size_t size) {
  const clave_llm *llm = self->llm;
  size_t bytes = llm_page_bytes(llm, index), rows = (size_t)tensor->dims[ROWS_AXIS];
  size_t run = rows < self->n_run ? rows : self->n_run;
  char *page = calloc(bytes + 1, 1);
  clave_status st = page ? NULL : status_no_memory();
  if (run < rows) memset(tensor->data, 0, size);
  for (size_t k = 0; k * llm->info.page_rows < run && !st; k++) {
    const page_copy copy = copy_of(llm, index, rows, run, k);
    st = clave_session_read_state_part(self->session, index, self->pages[k] * bytes, page, bytes);
    if (!st) from_page(&copy, page, tensor->data);
  }
  free(page);
  return st;
}

static clave_status write_pages(clave_llm_conversation *self, uint32_t index,
                                const clave_tensor *tensor, size_t size) {
  const clave_llm *llm = self->llm;
  size_t bytes = llm_page_bytes(llm, index), rows = (size_t)tensor->dims[ROWS_AXIS];
  (void)size;
  char *page = calloc(bytes + 1, 1);
  clave_status st = page ? NULL : status_no_memory();
  for (size_t k = 0; k * llm->info.page_rows < self->n_run && !st; k++) {
    const page_copy copy = copy_of(llm, index, rows, self->n_run, k);
    to_page(&copy, tensor->data, page);
    st = clave_session_write_state_part(self->session, index, self->pages[k] * bytes, page, bytes);
  }
  free(page);
  return st;
}

static clave_status shared_pages_accept_file(clave_llm_conversation *self, int64_t rows,
                                             size_t n_run) {
  (void)rows; /* only the first n_run rows are kept */
  return shared_pages_reserve_capacity(self, 0, n_run);
}

const state_vtable shared_pages_state = {
    .open = open_pages,
    .close = close_pages,
    .lock = lock_pool,
    .unlock = unlock_pool,
    .reserve_capacity = shared_pages_reserve_capacity,
    .run = run_within_budget,
    .run_again = shared_pages_run_again,
    .clear = clear_pages,
    .rewind = rewind_pages,
    .share = share_pages,
    .describe = shared_pages_describe_state,
    .rows_in_file = shared_pages_rows_in_file,
    .read = read_pages,
    .accept_file = shared_pages_accept_file,
    .write = write_pages,
};
