/* Importing dma-bufs, for stub.c: by cl_khr_external_memory_dma_buf (CLAVE_STUB_DMA_BUF=khr) or
 * cl_arm_import_memory_dma_buf (=arm), over memory that is mapped. Uses that the specifications
 * refuse or leave undefined are errors here and are counted as violations: wrong properties or
 * flags, commands on memory that is not acquired, and, with the second extension, commands other
 * than kernels. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_IMPORTED = 64, MAX_SET = 1024, DEVICE_LIST = 0x2051, DMA_BUF_HANDLE = 0x2067 };

typedef struct imported_memory {
  cl_mem memory;
  bool is_arm;
  long acquired;
  void *data;
  size_t bytes;
} imported_memory;
static imported_memory imported[MAX_IMPORTED];
static struct {
  cl_kernel kernel;
  cl_uint index;
  cl_mem memory;
} set_arguments[MAX_SET];
static long violations, imports, transfers; /* transfers: acquired and released */
static int import_lock;

static bool imports_by(const char *way) {
  const char *given = getenv("CLAVE_STUB_DMA_BUF");
  return given && strcmp(given, way) == 0;
}

static cl_int violate(const char *what) {
  fprintf(stderr, "stub OpenCL: %s\n", what);
  __atomic_fetch_add(&violations, 1, __ATOMIC_RELAXED);
  return CL_INVALID_OPERATION;
}

static void lock_imports(void) {
  while (__atomic_exchange_n(&import_lock, 1, __ATOMIC_ACQUIRE)) {
  }
}
static void unlock_imports(void) { __atomic_store_n(&import_lock, 0, __ATOMIC_RELEASE); }

static imported_memory *find_imported(cl_mem memory) {
  for (int i = 0; memory && i < MAX_IMPORTED; i++)
    if (imported[i].memory == memory) return &imported[i];
  return NULL;
}

/* ---- making */

static void CL_CALLBACK let_go(cl_mem memory, void *unused) {
  (void)unused;
  lock_imports();
  imported_memory *m = find_imported(memory);
  if (m) {
    if (m->acquired) (void)violate("imported memory goes while it is acquired");
    munmap(m->data, m->bytes);
    *m = (imported_memory){0};
  }
  unlock_imports();
}

static cl_mem make_imported(cl_context context, cl_mem_flags flags, int fd, size_t size,
                            bool is_arm, cl_int *code) {
  struct stat file;
  cl_mem (*create)(cl_context, cl_mem_flags, size_t, void *, cl_int *);
  cl_int (*at_end)(cl_mem, void(CL_CALLBACK *)(cl_mem, void *), void *);
  const int how = flags & CL_MEM_READ_ONLY ? PROT_READ : PROT_READ | PROT_WRITE;
  load_real("clCreateBuffer", (void *)&create, sizeof create);
  load_real("clSetMemObjectDestructorCallback", (void *)&at_end, sizeof at_end);
  if (fstat(fd, &file) != 0 || (size_t)file.st_size < size) {
    *code = violate("more is imported than there is");
    return NULL;
  }
  void *data = mmap(NULL, size, how, MAP_SHARED, fd, 0);
  *code = data == MAP_FAILED ? CL_OUT_OF_RESOURCES : CL_SUCCESS;
  cl_mem m = *code ? NULL : create(context, flags | CL_MEM_USE_HOST_PTR, size, data, code);
  if (!m) return NULL;
  lock_imports();
  imported_memory *place = imported;
  while (place->memory) place++;
  *place = (imported_memory){m, is_arm, 0, data, size};
  imports++;
  unlock_imports();
  at_end(m, let_go, NULL);
  return m;
}

/* Accepts exactly the handle and a list of one device; the driver then owns the descriptor. */
static cl_mem hook_clCreateBufferWithProperties(
    cl_mem (*real)(cl_context, const cl_mem_properties *, cl_mem_flags, size_t, void *, cl_int *),
    cl_context context, const cl_mem_properties *properties, cl_mem_flags flags, size_t size,
    void *host, cl_int *code) {
  cl_int own;
  if (!imports_by("khr")) return real(context, properties, flags, size, host, code);
  const bool right = properties && properties[0] == DMA_BUF_HANDLE &&
                     properties[2] == DEVICE_LIST && properties[3] && !properties[4] &&
                     !properties[5];
  const cl_mem_flags with_host = CL_MEM_USE_HOST_PTR | CL_MEM_ALLOC_HOST_PTR | CL_MEM_COPY_HOST_PTR;
  cl_mem m = NULL;
  if (!right || host || flags & with_host)
    own = violate("properties or flags of an imported buffer are wrong");
  else
    m = make_imported(context, flags, (int)properties[1], size, false, &own);
  if (m) close((int)properties[1]);
  if (code) *code = own;
  return m;
}

static cl_mem CL_API_CALL import_by_arm(cl_context context, cl_mem_flags flags,
                                        const intptr_t *intptr, void *fd, size_t size,
                                        cl_int *code) {
  cl_int own = stub_call("clImportMemoryARM", NULL);
  cl_mem m = NULL;
  if (!own && (!intptr || intptr[0] != 0x40B2 || intptr[1] != 0x40B4 || intptr[2]))
    own = violate("properties of clImportMemoryARM are wrong");
  if (!own) m = make_imported(context, flags, *(const int *)fd, size, true, &own);
  if (m) stub_count(MemObject_OBJECTS, 1);
  if (code) *code = own;
  return m;
}

/* ---- acquiring, releasing */

static cl_int change_acquired(cl_uint n, const cl_mem *list, long change) {
  cl_int code = n && list ? CL_SUCCESS : violate("no memory is acquired or released");
  lock_imports();
  for (cl_uint i = 0; i < n && !code; i++) {
    imported_memory *memory = find_imported(list[i]);
    if (!memory || memory->is_arm || memory->acquired + change < 0 || memory->acquired + change > 1)
      code =
          violate(change > 0 ? "what is acquired cannot be" : "what is released was not acquired");
    else
      memory->acquired += change, transfers++;
  }
  unlock_imports();
  return code;
}

static cl_int CL_API_CALL acquire_external(cl_command_queue queue, cl_uint n, const cl_mem *list,
                                           cl_uint n_waits, const cl_event *waits,
                                           cl_event *event) {
  (void)queue, (void)n_waits, (void)waits, (void)event;
  cl_int code = stub_call("clEnqueueAcquireExternalMemObjectsKHR", NULL);
  return code ? code : change_acquired(n, list, 1);
}

static cl_int CL_API_CALL release_external(cl_command_queue queue, cl_uint n, const cl_mem *list,
                                           cl_uint n_waits, const cl_event *waits,
                                           cl_event *event) {
  (void)queue, (void)n_waits, (void)waits, (void)event;
  cl_int code = change_acquired(n, list, -1); /* like other releases, it never fails */
  return code;
}

static void *hook_clGetExtensionFunctionAddressForPlatform(
    void *(*real)(cl_platform_id, const char *), cl_platform_id platform, const char *name) {
  if (imports_by("khr") && strcmp(name, "clEnqueueAcquireExternalMemObjectsKHR") == 0)
    return (void *)acquire_external;
  if (imports_by("khr") && strcmp(name, "clEnqueueReleaseExternalMemObjectsKHR") == 0)
    return (void *)release_external;
  if (imports_by("arm") && strcmp(name, "clImportMemoryARM") == 0) return (void *)import_by_arm;
  return real(platform, name);
}

/* ---- uses */

/* Returns an error if a command other than a kernel must not use this memory. */
static cl_int refuse_memory(cl_mem memory) {
  lock_imports();
  const imported_memory *imported_memory = find_imported(memory);
  cl_int code = CL_SUCCESS;
  if (imported_memory && imported_memory->is_arm)
    code = violate("a command other than a kernel uses memory imported by ARM's");
  if (imported_memory && !imported_memory->is_arm && !imported_memory->acquired)
    code = violate("a command uses memory that is not acquired");
  unlock_imports();
  return code;
}

static cl_int refuse_kernel(cl_kernel kernel) {
  cl_int code = CL_SUCCESS;
  lock_imports();
  for (int i = 0; i < MAX_SET && !code; i++) {
    const imported_memory *memory =
        set_arguments[i].kernel == kernel ? find_imported(set_arguments[i].memory) : NULL;
    if (memory && !memory->is_arm && !memory->acquired)
      code = violate("a kernel uses memory that is not acquired");
  }
  unlock_imports();
  return code;
}

/* Records which kernels have imported memory among their arguments. */
static cl_int hook_clSetKernelArg(cl_int (*real)(cl_kernel, cl_uint, size_t, const void *),
                                  cl_kernel kernel, cl_uint index, size_t size, const void *value) {
  cl_mem memory = NULL;
  if (size == sizeof memory && value) memcpy(&memory, value, sizeof memory);
  lock_imports();
  int place = -1, at = -1;
  for (int i = 0; i < MAX_SET; i++) {
    if (!set_arguments[i].kernel) place = i;
    if (set_arguments[i].kernel == kernel && set_arguments[i].index == index) at = i;
  }
  if (at < 0 && find_imported(memory)) at = place;
  if (at >= 0) {
    const bool stays = find_imported(memory) != NULL;
    set_arguments[at].kernel = stays ? kernel : NULL;
    set_arguments[at].index = index;
    set_arguments[at].memory = memory;
  }
  unlock_imports();
  return real(kernel, index, size, value);
}

static cl_int hook_clReleaseKernel(cl_int (*real)(cl_kernel), cl_kernel kernel) {
  lock_imports();
  for (int i = 0; i < MAX_SET; i++)
    if (set_arguments[i].kernel == kernel) set_arguments[i].kernel = NULL;
  unlock_imports();
  return real(kernel);
}

long stub_imports(void);
long stub_imports(void) { return imports; }
long stub_transfers(void);
long stub_transfers(void) { return transfers; }
long stub_violations(void);
/* Number of violations of the specifications of importing memory. */
long stub_violations(void) { return violations; }
