#ifndef BACKEND_OPENCL_DEVICE_DRIVER_FOLDER_H
#define BACKEND_OPENCL_DEVICE_DRIVER_FOLDER_H
/* Drivers that keep files of their own (PoCL) get a folder of the process's own for them: in memory
 * (/dev/shm) where code may be loaded from there, else within the folder of kernel binaries, else
 * within that for temporary files. What a crash or a full disk leaves there is read by no other
 * process. It is empty at first, since our binaries hold what matters, and removed when the process
 * ends, or by the next one. */
#include <stdbool.h>
#include <stdint.h>

/* Makes the folder, once a process, and sets the drivers' variable to it while they start up. Does
 * nothing if the user set the variable, or the host has loaded OpenCL before. */
void driver_folder_enter(void);
/* The drivers have started: takes the variable away, and the folder if none of them uses it. */
void driver_folder_leave(bool is_used);
/* NULL: there is none. */
const char *driver_folder_path(void);

/* Removes the folders in `folder` and in the other places whose processes have ended. Returns their
 * bytes. */
uint64_t driver_folders_sweep(const char *folder);
/* Adds what lies in those in `folder`. */
void driver_folders_measure(const char *folder, uint64_t *bytes, uint64_t *files);

#endif
