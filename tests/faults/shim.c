/* A library loaded before all others, which makes system calls of a process fail and its clock run wrong.

   It does what a control file says (FAULTS_CONTROL names it), which the tests write while the process runs: the layout
   below is that of shim.py. Calls are told apart by what they do and by a part of the path that they are about. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum call { NONE, OPEN, READ, WRITE, SYNC, RENAME, UNLINK, TRUNCATE, MAP };
enum { RULES = 16, BLOCK = 4096, SHORT = 0 };

struct rule {
    _Atomic int32_t call;
    int32_t error;          /* an errno, or SHORT: a write of a half of what was given */
    _Atomic int32_t skip;   /* so many calls succeed first */
    _Atomic int32_t left;   /* so many fail then; a negative number: all */
    int64_t first, end;     /* only calls that touch these bytes of the file; an end of 0: any */
    _Atomic int32_t fired;
    uint32_t inode;         /* only this file, by the low bits of its number; 0: every file with this path */
    char path[216];
};

static struct control {
    _Atomic int64_t clock_offset; /* ns */
    int64_t unused[31];
    struct rule rules[RULES];
} *control;

__attribute__((constructor)) static void load(void)
{
    const char *path = getenv("FAULTS_CONTROL");
    int file = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *mapped = (void *)syscall(SYS_mmap, NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED) control = mapped;
    syscall(SYS_close, file);
}

static int is_armed(enum call call)
{
    for (int at = 0; control && at < RULES; at++)
        if (control->rules[at].call == (int)call) return 1;
    return 0;
}

/* The rule that this call breaks by; counts it. */
static struct rule *broken(enum call call, const char *path, uint32_t inode, int64_t first, int64_t end)
{
    for (int at = 0; at < RULES; at++) {
        struct rule *rule = &control->rules[at];
        if (rule->call != (int)call || !strstr(path, rule->path)) continue;
        if (rule->inode && rule->inode != inode) continue;
        if (rule->end && (end <= rule->first || first >= rule->end)) continue;
        if (atomic_fetch_sub(&rule->skip, 1) > 0) continue;
        int32_t left = rule->left;
        while (left > 0 && !atomic_compare_exchange_weak(&rule->left, &left, left - 1)) continue;
        if (!left) continue;
        atomic_fetch_add(&rule->fired, 1);
        return rule;
    }
    return NULL;
}

static struct rule *broken_at(enum call call, int file, int64_t first, int64_t size)
{
    char link[40], path[4096];
    if (!is_armed(call)) return NULL;
    strcpy(link, "/proc/self/fd/");
    char digits[12], *end = digits + sizeof digits - 1;
    *end = 0;
    for (int rest = file; end == digits + sizeof digits - 1 || rest; rest /= 10) *--end = (char)('0' + rest % 10);
    strcat(link, end);
    ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
    if (length <= 0 || path[0] != '/') return NULL;
    path[length] = 0;
    if (first < 0) first = syscall(SYS_lseek, file, 0, SEEK_CUR);
    struct stat status;
    uint32_t inode = fstat(file, &status) ? 0 : (uint32_t)status.st_ino;
    return broken(call, path, inode, first, first + size);
}

static struct rule *broken_by(enum call call, const char *path)
{
    return path && is_armed(call) ? broken(call, path, 0, 0, 1) : NULL;
}

static int failure(const struct rule *rule)
{
    errno = rule->error ? rule->error : EIO;
    return -1;
}

/* --- files by name --- */

static int opened(int folder, const char *path, int flags, mode_t mode)
{
    struct rule *rule = broken_by(OPEN, path);
    return rule ? failure(rule) : (int)syscall(SYS_openat, folder, path, flags, mode);
}

#define MODE(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | __O_TMPFILE)) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }

int open(const char *path, int flags, ...) { MODE(flags) return opened(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags) return opened(AT_FDCWD, path, flags, mode); }
int openat(int folder, const char *path, int flags, ...) { MODE(flags) return opened(folder, path, flags, mode); }
int openat64(int folder, const char *path, int flags, ...) { MODE(flags) return opened(folder, path, flags, mode); }

int renameat(int from, const char *old, int to, const char *new)
{
    struct rule *rule = broken_by(RENAME, new);
    return rule ? failure(rule) : (int)syscall(SYS_renameat2, from, old, to, new, 0);
}

int rename(const char *old, const char *new) { return renameat(AT_FDCWD, old, AT_FDCWD, new); }

int unlinkat(int folder, const char *path, int flags)
{
    struct rule *rule = broken_by(UNLINK, path);
    return rule ? failure(rule) : (int)syscall(SYS_unlinkat, folder, path, flags);
}

int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }

/* --- reading --- */

ssize_t read(int file, void *to, size_t size)
{
    struct rule *rule = broken_at(READ, file, -1, (int64_t)size);
    return rule ? failure(rule) : syscall(SYS_read, file, to, size);
}

ssize_t pread64(int file, void *to, size_t size, off64_t offset)
{
    struct rule *rule = broken_at(READ, file, offset, (int64_t)size);
    return rule ? failure(rule) : syscall(SYS_pread64, file, to, size, offset);
}

ssize_t pread(int file, void *to, size_t size, off_t offset) { return pread64(file, to, size, offset); }

static int64_t total(const struct iovec *parts, int count)
{
    int64_t size = 0;
    for (int at = 0; at < count; at++) size += (int64_t)parts[at].iov_len;
    return size;
}

ssize_t preadv64(int file, const struct iovec *parts, int count, off64_t offset)
{
    struct rule *rule = broken_at(READ, file, offset, total(parts, count));
    return rule ? failure(rule) : syscall(SYS_preadv, file, parts, count, offset, 0);
}

ssize_t preadv(int file, const struct iovec *parts, int count, off_t offset)
{
    return preadv64(file, parts, count, offset);
}

/* A mapping with bad blocks: touching one of them raises SIGBUS, as it does where the disk cannot be read. */
void *mmap64(void *address, size_t length, int protection, int flags, int file, off64_t offset)
{
    void *mapped = (void *)syscall(SYS_mmap, address, length, protection, flags, file, offset);
    if (mapped == MAP_FAILED || (flags & MAP_ANONYMOUS) || file < 0) return mapped;
    struct rule *rule = broken_at(MAP, file, offset, (int64_t)length);
    if (!rule) return mapped;
    int64_t first = rule->first > offset ? rule->first - offset : 0;
    int64_t end = rule->end && rule->end < offset + (int64_t)length ? rule->end - offset : (int64_t)length;
    first -= first % BLOCK;
    end += (BLOCK - end % BLOCK) % BLOCK;
    int nothing = (int)syscall(SYS_memfd_create, "nothing", 0);
    syscall(SYS_mmap, (char *)mapped + first, end - first, protection, MAP_SHARED | MAP_FIXED, nothing, 0);
    syscall(SYS_close, nothing);
    return mapped;
}

void *mmap(void *address, size_t length, int protection, int flags, int file, off_t offset)
{
    return mmap64(address, length, protection, flags, file, offset);
}

/* --- writing --- */

/* A half, in whole blocks where the file wants blocks; nothing shorter is possible where that is nothing. */
static size_t half(int file, size_t size)
{
    int is_direct = (int)syscall(SYS_fcntl, file, F_GETFL) & O_DIRECT;
    size_t some = is_direct ? size / 2 / BLOCK * BLOCK : size / 2;
    return some ? some : size;
}

ssize_t write(int file, const void *from, size_t size)
{
    struct rule *rule = broken_at(WRITE, file, -1, (int64_t)size);
    if (rule && rule->error != SHORT) return failure(rule);
    return syscall(SYS_write, file, from, rule ? half(file, size) : size);
}

ssize_t pwrite64(int file, const void *from, size_t size, off64_t offset)
{
    struct rule *rule = broken_at(WRITE, file, offset, (int64_t)size);
    if (rule && rule->error != SHORT) return failure(rule);
    return syscall(SYS_pwrite64, file, from, rule ? half(file, size) : size, offset);
}

ssize_t pwrite(int file, const void *from, size_t size, off_t offset) { return pwrite64(file, from, size, offset); }

ssize_t writev(int file, const struct iovec *parts, int count)
{
    struct rule *rule = broken_at(WRITE, file, -1, total(parts, count));
    if (rule && rule->error != SHORT) return failure(rule);
    return syscall(SYS_writev, file, parts, rule && count > 1 ? 1 : count);
}

ssize_t pwritev64(int file, const struct iovec *parts, int count, off64_t offset)
{
    struct rule *rule = broken_at(WRITE, file, offset, total(parts, count));
    if (rule && rule->error != SHORT) return failure(rule);
    return syscall(SYS_pwritev, file, parts, rule && count > 1 ? 1 : count, offset, 0);
}

ssize_t pwritev(int file, const struct iovec *parts, int count, off_t offset)
{
    return pwritev64(file, parts, count, offset);
}

int fsync(int file)
{
    struct rule *rule = broken_at(SYNC, file, 0, 1);
    return rule ? failure(rule) : (int)syscall(SYS_fsync, file);
}

int fdatasync(int file)
{
    struct rule *rule = broken_at(SYNC, file, 0, 1);
    return rule ? failure(rule) : (int)syscall(SYS_fdatasync, file);
}

int ftruncate64(int file, off64_t size)
{
    struct rule *rule = broken_at(TRUNCATE, file, size, 1);
    return rule ? failure(rule) : (int)syscall(SYS_ftruncate, file, size);
}

int ftruncate(int file, off_t size) { return ftruncate64(file, size); }

/* --- the clock --- */

int clock_gettime(clockid_t clock, struct timespec *now)
{
    long status = syscall(SYS_clock_gettime, clock, now);
    int64_t offset = control && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) ? control->clock_offset : 0;
    if (!status && offset) {
        int64_t nanoseconds = now->tv_sec * 1000000000LL + now->tv_nsec + offset;
        now->tv_sec = nanoseconds / 1000000000LL;
        now->tv_nsec = nanoseconds % 1000000000LL;
    }
    return (int)status;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec precise;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &precise)) return -1;
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *to)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (to) *to = now.tv_sec;
    return now.tv_sec;
}
