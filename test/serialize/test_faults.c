/* Fails the Nth allocation of load and save, for all N: an error, no leak, no incomplete file. */
#include "test/fault_alloc.h"

#include "test/serialize/sample.h"

enum { MAX_FAULTS = 20000 };

typedef struct job {
  clave_status (*run)(const struct job *job);
  const char *from, *to; /* paths */
  const char *what;
} job;

static clave_status load_and_save(const job *job) {
  program *program;
  TRY(program_load(job->from, NULL, &program));
  clave_status st = program_save(program, job->to);
  if (!st) st = program_check_hashes(program);
  program_destroy(program);
  return st;
}

static clave_status create(const job *job) {
  program *program;
  (void)job;
  TRY(sample_program(SAMPLE_PROGRAM, &program));
  program_destroy(program);
  return NULL;
}

/* Causes an error that is not about memory, but whose message needs memory. */
static clave_status fail_to_load(const job *job) {
  program *program;
  clave_status st = program_load(job->from, NULL, &program);
  if (!st) return INVALID("it loads");
  bool expected = status_code_of(st) == STATUS_NO_MEMORY ||
                  strstr(status_message(st), "the program has no methods");
  if (!expected) return st;
  bool no_memory = status_code_of(st) == STATUS_NO_MEMORY;
  status_free(st);
  return no_memory ? status_no_memory() : NULL;
}

static size_t count_files(void) {
  folder_entry *entries;
  size_t n;
  expect_good(folder_list(sample_folder, &entries, &n));
  folder_list_free(entries, n);
  return n;
}

static void run_job(const job *job) {
  expect_good(job->run(job)); /* one good run, so that its files exist */
  size_t files = count_files();
  for (long n = 0; n < MAX_FAULTS; n++) {
    long live = fault_live;
    fault_arm(n);
    clave_status st = job->run(job);
    bool came = fault_disarm();
    status_code code = status_code_of(st);
    if (st && code != STATUS_NO_MEMORY)
      fail_msg("%s, allocation %ld: %s", job->what, n, status_message(st));
    status_free(st);
    if (fault_live != live)
      fail_msg("%s, allocation %ld: %ld blocks leak", job->what, n, fault_live - live);
    if (count_files() != files) fail_msg("%s, allocation %ld: a file stays behind", job->what, n);
    if (!came) return;
  }
  fail_msg("%s: more than %d allocations", job->what, (int)MAX_FAULTS);
}

static void test_faults(void **state) {
  (void)state;
  if (!fault_alloc_works()) skip();
  program *program;
  char *clv = in_folder("a.clv"), *json_path = in_folder("a.json"), *empty = in_folder("bad.json"),
       *other = in_folder("b.clv");
  expect_good(sample_program(SAMPLE_PROGRAM, &program));
  expect_good(program_save(program, clv));
  expect_good(program_save(program, json_path));
  program_destroy(program);
  write_bytes(empty, "{\"values\": [{}]}", 16);
  const job jobs[] = {
      {create, NULL, NULL, "create"},
      {load_and_save, clv, other, ".clv to .clv"},
      {load_and_save, clv, json_path, ".clv to .json"},
      {load_and_save, json_path, json_path, ".json to .json"},
      {fail_to_load, empty, NULL, "a bad program"},
  };
  for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) run_job(&jobs[i]);
  free(clv);
  free(json_path);
  free(empty);
  free(other);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_faults)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
