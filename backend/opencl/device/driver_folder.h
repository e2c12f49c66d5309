#ifndef BACKEND_OPENCL_DEVICE_DRIVER_FOLDER_H
#define BACKEND_OPENCL_DEVICE_DRIVER_FOLDER_H
/* A private folder of this process for drivers that keep files (PoCL). It is in shared memory
 * (/dev/shm) if code may be loaded from it, else in the folder of kernel binaries, else in the
 * folder for temporary files. Because it is private, no other process reads damaged files after a
 * crash or on a full disk. It is empty at first: our own cache has the kernel binaries. It is
 * removed when the process ends, or by the next process. */
#include <stdbool.h>
#include <stdint.h>

/* Makes the folder, once per process, and sets the drivers' environment variable to it while
 * drivers start up. Does nothing if the user has set it, or the host has loaded OpenCL. */
void driver_folder_enter(void);
/* Call it once drivers have started: unsets the variable, and removes the folder unless is_used. */
void driver_folder_leave(bool is_used);
/* Returns the folder of opencl_keep_files_in, or NULL. */
const char *driver_folder_parent(void);
/* Returns the folder, or NULL if none exists. */
const char *driver_folder_path(void);

/* Removes the driver folders of ended processes, in `folder`, shared memory and the folder for
 * temporary files. Returns the number of bytes removed. */
uint64_t driver_folders_sweep(const char *folder);
/* Adds the size and number of files in the driver folders below `folder`. */
void driver_folders_measure(const char *folder, uint64_t *bytes, uint64_t *files);

#endif
