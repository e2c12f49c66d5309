#ifndef BACKEND_OPENCL_DEVICE_DRIVER_FOLDER_H
#define BACKEND_OPENCL_DEVICE_DRIVER_FOLDER_H
/* A private folder of this process for drivers that keep files (PoCL). It is in memory (/dev/shm)
 * where code may be loaded from there, else within the folder of kernel binaries, else within the
 * folder for temporary files. No other process reads what a crash or a full disk leaves there. The
 * folder is empty at first, since our binaries hold what matters. It is removed when the process
 * ends, or by the next process. */
#include <stdbool.h>
#include <stdint.h>

/* Makes the folder, once per process, and sets the drivers' environment variable to it while they
 * start up. Does nothing if the user set the variable, or the host loaded OpenCL before. */
void driver_folder_enter(void);
/* Called after drivers started: unsets the variable, and removes the folder if it is unused. */
void driver_folder_leave(bool is_used);
/* Returns the folder, or NULL if there is none. */
const char *driver_folder_path(void);

/* Removes the folders of ended processes in `folder` and in the other places. Returns the number of
 * bytes removed. */
uint64_t driver_folders_sweep(const char *folder);
/* Adds the size and number of files in the driver folders below `folder`. */
void driver_folders_measure(const char *folder, uint64_t *bytes, uint64_t *files);

#endif
