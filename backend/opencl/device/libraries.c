/* The library files that contain OpenCL on each platform, and the choice of one. */
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/device/device.h"
#include "base/process.h"

#if defined __LP64__
#define VENDOR_FOLDER "lib64"
#else
#define VENDOR_FOLDER "lib"
#endif

/* Names and paths of libraries, tried in order. */
static const char *const platform_files[] = {
#if defined __ANDROID__
    /* Apps list these names as uses-native-library in their manifest, which Android 12 requires:
     * libOpenCL-pixel.so for Tensor, libGLES_mali.so for other Mali, libPVROCL.so for PowerVR. */
    "libOpenCL.so",
    "libOpenCL-pixel.so",
    "libOpenCL-car.so",
    "libGLES_mali.so",
    "libmali.so",
    "libPVROCL.so",
    /* Vendor folders, which shell programs and apps for older Android versions can open. */
    "/vendor/" VENDOR_FOLDER "/libOpenCL.so",
    "/system/vendor/" VENDOR_FOLDER "/libOpenCL.so",
    "/system/" VENDOR_FOLDER "/libOpenCL.so",
    "/vendor/" VENDOR_FOLDER "/egl/libGLES_mali.so",
    "/system/vendor/" VENDOR_FOLDER "/egl/libGLES_mali.so",
    "/vendor/" VENDOR_FOLDER "/libPVROCL.so",
    "/system/vendor/" VENDOR_FOLDER "/libPVROCL.so",
#elif defined _WIN32
    "OpenCL.dll",
#elif defined __APPLE__
    "/System/Library/Frameworks/OpenCL.framework/OpenCL",
#else
    "libOpenCL.so.1",
    "libOpenCL.so", /* from a development package, or from a board vendor that ships no loader */
#endif
};

#if defined __linux__ && !defined __ANDROID__
#define REMEDY                                                                               \
  ": install the package ocl-icd-libopencl1, and pocl-opencl-icd for the CPU or the driver " \
  "of your GPU"
#else
#define REMEDY ": install the driver of your GPU"
#endif

static const char variable[] = "CLAVE_OPENCL_LIBRARY";

/* Sets *files to the files to try, and returns their number: the file that the variable names, or
 * the platform's files. *given: the variable's value, or NULL. */
static size_t list_files(const char **given, const char *const **files) {
  *given = environment_trusted(variable);
  if (*given && !**given) *given = NULL;
  *files = *given ? given : platform_files;
  if (*given) return strcmp(*given, "off") != 0;
  return sizeof platform_files / sizeof *platform_files;
}

bool opencl_is_loaded(void) {
  const char *given, *const *files;
  const size_t n = list_files(&given, &files);
  for (size_t i = 0; i < n; i++)
    if (library_is_loaded(files[i])) return true;
  return false;
}

/* The libraries of Pixel phones return OpenCL's functions only through a special function, after a
 * call that loads the driver. */
static void enable_opencl(opencl_library *library) {
  void *enable = library_symbol(library->library, "enableOpenCL"),
       *load = library_symbol(library->library, "loadOpenCLPointer");
  void (*call)(void);
  if (!enable || !load) return;
  memcpy(&call, &enable, sizeof call);
  call();
  memcpy(&library->load, &load, sizeof library->load);
}

void *opencl_library_find(const opencl_library *library, const char *name) {
  void *from = library_symbol(library->library, name);
  return from || !library->load ? from : library->load(name);
}

void opencl_library_close(opencl_library *library) {
  library_close(library->library);
  free(library->file);
  *library = (opencl_library){.file = NULL};
}

/* Opens one file, and calls `check` on it. */
static clave_status libraries_open_file(const char *file, opencl_library_check check, void *context,
                                        opencl_library *out) {
  *out = (opencl_library){.file = strdup(file)};
  if (!out->file) return status_no_memory();
  clave_status st = library_open(file, &out->library);
  if (!st) {
    enable_opencl(out);
    st = check(context, out);
  }
  if (st) opencl_library_close(out);
  return st;
}

/* Returns the error if no file could be used. first: the error of the first file. */
static clave_status explain_failure(const struct clave_error *first, const char *const *files,
                                    size_t n) {
  text others = {0};
  for (size_t i = 1; i < n; i++)
    text_printf(&others, "%s%s", i == 1 ? "; also tried " : ", ", files[i]);
  clave_status st = text_status(&others);
  if (!st)
    st = UNSUPPORTED("no OpenCL library (%s%s)" REMEDY, status_message(first),
                     others.data ? others.data : "");
  text_free(&others);
  return st;
}

clave_status opencl_library_open(opencl_library_check check, void *context, opencl_library *out) {
  const char *given, *const *files;
  const size_t n = list_files(&given, &files);
  clave_status first = NULL;
  *out = (opencl_library){.file = NULL};
  for (size_t i = 0; i < n; i++) {
    clave_status st = libraries_open_file(files[i], check, context, out);
    if (!st || status_code_of(st) == STATUS_NO_MEMORY || given) {
      status_free(first);
      return st && given ? status_while(st, "%s", variable) : st;
    }
    if (first)
      status_free(st);
    else
      first = st;
  }
  if (!first) return UNSUPPORTED("OpenCL is off: %s is set to off", variable);
  clave_status st = explain_failure(first, files, n);
  status_free(first);
  return st;
}
