/* Counts the system calls that change files below a folder, and lets one of them fail.
 *
 * Loaded with LD_PRELOAD. `fault_set` chooses the folder, the call and what happens to it. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { NOTHING, KILL_BEFORE, KILL_AFTER, KILL_MIDWAY, FAIL };

static char folder[4096];
static int kind, number, error_number, count;
/* The bytes that fit on the disk; negative if there is no limit. */
static long long space;
static char calls[1 << 16];

void fault_set(const char *below, int what, int call, int error, long long bytes) {
    strncpy(folder, below, sizeof folder - 1);
    kind = what, number = call, error_number = error, space = bytes, count = 0, calls[0] = 0;
}

const char *fault_calls(void) { return calls; }

static int is_below(const char *path) {
    return folder[0] && path && strncmp(path, folder, strlen(folder)) == 0;
}

static int is_file_below(int file) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return is_below(path);
}

static void die(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

/* Returns what happens to this call. A negative number means every call. */
static int begin(const char *name) {
    count++;
    size_t used = strlen(calls);
    snprintf(calls + used, sizeof calls - used, "%s ", name);
    if (number >= 0 && count != number) return NOTHING;
    if (kind == KILL_BEFORE) die();
    if (kind == FAIL) errno = error_number;
    return kind;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define WATCH(is_watched, name, call)               \
    do {                                            \
        if (!(is_watched)) return call;             \
        int what = begin(name);                     \
        if (what == FAIL) return -1;                \
        __typeof__(call) result = call;             \
        if (what != NOTHING) die();                 \
        return result;                              \
    } while (0)

ssize_t write(int file, const void *bytes, size_t size) {
    if (!is_file_below(file)) return REAL(write)(file, bytes, size);
    int what = begin("write");
    if (what == FAIL) return -1;
    if (space >= 0) {
        if ((long long)size > space) size = space;
        space -= size;
        if (size == 0) return errno = ENOSPC, -1;
    }
    if (what == KILL_MIDWAY) size /= 2;
    ssize_t result = REAL(write)(file, bytes, size);
    if (what != NOTHING) die();
    return result;
}

ssize_t copy_file_range(int in, off64_t *in_at, int out, off64_t *out_at, size_t size, unsigned flags) {
    if (space >= 0 && is_file_below(out)) return errno = ENOSPC, -1;
    WATCH(is_file_below(out), "copy_file_range", REAL(copy_file_range)(in, in_at, out, out_at, size, flags));
}

int rename(const char *from, const char *to) { WATCH(is_below(to), "rename", REAL(rename)(from, to)); }
int link(const char *from, const char *to) { WATCH(is_below(to), "link", REAL(link)(from, to)); }
int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
    WATCH(is_below(to), "link", REAL(linkat)(from_folder, from, to_folder, to, flags));
}
int unlink(const char *path) { WATCH(is_below(path), "unlink", REAL(unlink)(path)); }
int mkdir(const char *path, mode_t mode) { WATCH(is_below(path), "mkdir", REAL(mkdir)(path, mode)); }
int fsync(int file) { WATCH(is_file_below(file), "fsync", REAL(fsync)(file)); }
int fdatasync(int file) { WATCH(is_file_below(file), "fsync", REAL(fdatasync)(file)); }
int ftruncate(int file, off_t size) { WATCH(is_file_below(file), "truncate", REAL(ftruncate)(file, size)); }
int ftruncate64(int file, off64_t size) { WATCH(is_file_below(file), "truncate", REAL(ftruncate64)(file, size)); }
int fchmod(int file, mode_t mode) { WATCH(is_file_below(file), "chmod", REAL(fchmod)(file, mode)); }

#define OPEN(name)                                                                        \
    int name(const char *path, int flags, ...) {                                          \
        va_list rest;                                                                     \
        va_start(rest, flags);                                                            \
        mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;                         \
        va_end(rest);                                                                     \
        WATCH((flags & O_CREAT) && is_below(path), "create", REAL(name)(path, flags, mode)); \
    }
OPEN(open)
OPEN(open64)
