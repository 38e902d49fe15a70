/* Counts the bytes that a process has allocated at the same time.
 *
 * Loaded with LD_PRELOAD. Blocks of less than 256 bytes do not count. */

#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stddef.h>

enum { SMALL = 256 };

extern void *__libc_malloc(size_t);
extern void __libc_free(void *);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static atomic_llong allocated, most;
static atomic_int is_counting;

void allocations_start(void) {
    allocated = 0;
    most = 0;
    is_counting = 1;
}

long long allocations_stop(void) {
    is_counting = 0;
    return most;
}

static void *counted(void *block) {
    if (!block || !is_counting) return block;
    long long size = malloc_usable_size(block);
    if (size < SMALL) return block;
    long long now = atomic_fetch_add(&allocated, size) + size, known = most;
    while (now > known && !atomic_compare_exchange_weak(&most, &known, now)) {}
    return block;
}

static void uncounted(void *block) {
    if (!block || !is_counting) return;
    long long size = malloc_usable_size(block);
    if (size >= SMALL) atomic_fetch_sub(&allocated, size);
}

void *malloc(size_t size) { return counted(__libc_malloc(size)); }

void free(void *block) {
    uncounted(block);
    __libc_free(block);
}

void *calloc(size_t count, size_t size) { return counted(__libc_calloc(count, size)); }

void *realloc(void *block, size_t size) {
    uncounted(block);
    return counted(__libc_realloc(block, size));
}

void *memalign(size_t alignment, size_t size) { return counted(__libc_memalign(alignment, size)); }

void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void **result, size_t alignment, size_t size) {
    void *block = memalign(alignment, size);
    if (!block) return ENOMEM;
    *result = block;
    return 0;
}
