/* A board under emulation, for LD_PRELOAD into the process that believes to run on one (x86-64 Linux).
 *
 * Paths under /dev, /sys/class and /proc/device-tree that a board has are redirected into EMU_ROOT. A mapping of
 * /dev/mem is Device memory: its pages are protected, and the fault handler decodes each access. An aligned 32-bit
 * load or store is done; anything else, as memcpy or memset would do, is a SIGBUS, as it is on a board. A mapping of
 * a u-dma-buf is Device memory too where it was opened with O_SYNC and its sync_mode is 1.
 *
 * Registers and GPIO lines are the test's: every access to them is a message over the socket EMU_SOCKET.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/gpio.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

enum { READ = 0, WRITE = 1, LINE = 2, RANGES = 64 };

struct message {
    uint32_t verb, value;
    uint64_t address;
};

struct range {
    char *start, *alias; /* `alias`: the same bytes without protection, where they are RAM */
    size_t size;
    uint64_t address;
};

static struct range ranges[RANGES];

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static void die(const char *what, uint64_t address, const unsigned char *code) {
    char text[200];
    int size = snprintf(text, sizeof text, "SIGBUS: %s at %#llx, instruction %02x %02x %02x %02x\n", what,
                        (unsigned long long)address, code[0], code[1], code[2], code[3]);
    if (write(2, text, (size_t)size) < 0) _exit(98);
    signal(SIGBUS, SIG_DFL);
    raise(SIGBUS);
}

/* One access to a register or line; a hang of the bus ends the process, which could not be ended on a board. */
static uint32_t ask(uint32_t verb, uint64_t address, uint32_t value) {
    const struct message request = {verb, value, address};
    uint32_t answer[2];
    const int fd = atoi(getenv("EMU_SOCKET"));
    if (write(fd, &request, sizeof request) != sizeof request || read(fd, answer, sizeof answer) != sizeof answer)
        _exit(98);
    if (answer[0]) {
        static const char text[] = "HANG: the bus never answers, and the processor stands still\n";
        if (write(2, text, sizeof text - 1) < 0) _exit(98);
        _exit(97);
    }
    return answer[1];
}

static void access_word(const struct range *range, size_t offset, int writes, uint32_t *value) {
    if (range->alias) {
        volatile uint32_t *word = (volatile uint32_t *)(range->alias + offset);
        if (writes) *word = *value;
        else *value = *word;
    } else {
        *value = ask(writes ? WRITE : READ, range->address + offset, *value);
    }
}

static greg_t *general_register(ucontext_t *context, int number) {
    static const int place[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                  REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    return &context->uc_mcontext.gregs[place[number]];
}

static void on_fault(int number, siginfo_t *info, void *raw) {
    ucontext_t *context = raw;
    const struct range *range = NULL;
    for (int i = 0; i < RANGES; ++i)
        if (ranges[i].size && (char *)info->si_addr >= ranges[i].start &&
            (char *)info->si_addr < ranges[i].start + ranges[i].size)
            range = &ranges[i];
    if (!range) { /* a fault of the program's own */
        signal(number, SIG_DFL);
        return;
    }
    const size_t offset = (size_t)((char *)info->si_addr - range->start);
    const unsigned char *const code = (const unsigned char *)context->uc_mcontext.gregs[REG_RIP];
    const unsigned char *at = code;
    unsigned rex = 0;
    if ((*at & 0xF0) == 0x40) rex = *at++;
    const unsigned opcode = *at++;
    /* mov r32, m32; mov m32, r32; mov m32, imm32: a prefix, REX.W or another opcode is another width. */
    if ((rex & 8) || (opcode != 0x8B && opcode != 0x89 && opcode != 0xC7))
        die("an access that is not one 32-bit load or store", range->address + offset, code);
    if (offset % 4) die("an unaligned access", range->address + offset, code);
    const unsigned modrm = *at++, mode = modrm >> 6;
    int displacement = mode == 1 ? 1 : mode == 2 ? 4 : 0;
    if ((modrm & 7) == 4) {
        if (mode == 0 && (*at & 7) == 5) displacement = 4;
        ++at;
    } else if (mode == 0 && (modrm & 7) == 5) {
        displacement = 4;
    }
    at += displacement;
    greg_t *reg = general_register(context, (int)((modrm >> 3 & 7) | (rex & 4) << 1));
    uint32_t value = (uint32_t)*reg;
    if (opcode == 0xC7) {
        memcpy(&value, at, 4);
        at += 4;
    }
    access_word(range, offset, opcode != 0x8B, &value);
    if (opcode == 0x8B) *reg = (greg_t)(uint64_t)value;
    context->uc_mcontext.gregs[REG_RIP] = (greg_t)at;
}

static const char *inside(const char *path, char *buffer, size_t size) {
    static const char *const ours[] = {"/dev/mem", "/dev/gpiochip", "/dev/udmabuf", "/dev/uio", "/sys/class/", "/proc/device-tree/"};
    const char *root = getenv("EMU_ROOT");
    int mine = root && path && (strcmp(path, "/dev") == 0 || strcmp(path, "/sys/class") == 0); /* Python 3.12 lists it */
    for (size_t i = 0; root && path && i < sizeof ours / sizeof *ours; ++i)
        mine |= strncmp(path, ours[i], strlen(ours[i])) == 0;
    if (!mine) return path;
    snprintf(buffer, size, "%s%s", root, path);
    return buffer;
}

#define OPEN(name)                                                     \
    int name(const char *path, int flags, ...) {                       \
        char buffer[4096];                                             \
        va_list more;                                                  \
        va_start(more, flags);                                         \
        const mode_t mode = va_arg(more, mode_t);                      \
        va_end(more);                                                  \
        return REAL(name)(inside(path, buffer, sizeof buffer), flags, mode); \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                   \
    int name(int folder, const char *path, int flags, ...) {           \
        char buffer[4096];                                             \
        va_list more;                                                  \
        va_start(more, flags);                                         \
        const mode_t mode = va_arg(more, mode_t);                      \
        va_end(more);                                                  \
        return REAL(name)(folder, inside(path, buffer, sizeof buffer), flags, mode); \
    }
OPENAT(openat)
OPENAT(openat64)

#define STAT(name, record)                                             \
    int name(const char *path, struct record *found) {                 \
        char buffer[4096];                                             \
        return REAL(name)(inside(path, buffer, sizeof buffer), found); \
    }
STAT(stat, stat)
STAT(stat64, stat64)
STAT(lstat, stat)
STAT(lstat64, stat64)

DIR *opendir(const char *path) {
    char buffer[4096];
    return REAL(opendir)(inside(path, buffer, sizeof buffer));
}

/* The path behind a descriptor, without EMU_ROOT; empty for a path outside. */
static const char *opened(int fd, char *buffer, size_t size) {
    char link[64];
    const char *root = getenv("EMU_ROOT");
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t count = root && fd >= 0 ? readlink(link, buffer, size - 1) : -1;
    buffer[count < 0 ? 0 : count] = 0;
    return root && strncmp(buffer, root, strlen(root)) == 0 ? buffer + strlen(root) : "";
}

static int is_device_memory(int fd, const char *path) {
    if (strcmp(path, "/dev/mem") == 0) return 1;
    if (strncmp(path, "/dev/udmabuf", 12) != 0 || !(fcntl(fd, F_GETFL) & O_SYNC)) return 0;
    char name[300], mode[16] = "";
    snprintf(name, sizeof name, "/sys/class/u-dma-buf/%.200s/sync_mode", path + 5);
    const int file = open(name, O_RDONLY);
    if (file < 0 || read(file, mode, sizeof mode - 1) < 0) _exit(98);
    close(file);
    return (atoi(mode) & 3) == 1;
}

void *mmap64(void *wanted, size_t size, int protection, int flags, int fd, off64_t offset) {
    char buffer[4096];
    char *start = REAL(mmap64)(wanted, size, protection, flags, fd, offset);
    const char *path = opened(fd, buffer, sizeof buffer);
    if (start == MAP_FAILED || !is_device_memory(fd, path)) return start;
    uint64_t ram = 0, bytes = 0;
    sscanf(getenv("EMU_RAM"), "%llx:%llx", (unsigned long long *)&ram, (unsigned long long *)&bytes);
    const int is_ram = path[5] == 'u' || ((uint64_t)offset >= ram && (uint64_t)offset < ram + bytes);
    for (int i = 0; i < RANGES; ++i)
        if (!ranges[i].size) {
            char *alias = is_ram ? REAL(mmap64)(NULL, size, protection, flags, fd, offset) : NULL;
            ranges[i] = (struct range){start, alias, size, (uint64_t)offset};
            mprotect(start, size, PROT_NONE);
            struct sigaction action = {0};
            action.sa_sigaction = on_fault;
            action.sa_flags = SA_SIGINFO | SA_NODEFER;
            sigaction(SIGSEGV, &action, NULL);
            return start;
        }
    _exit(98);
}

void *mmap(void *wanted, size_t size, int protection, int flags, int fd, off_t offset) {
    return mmap64(wanted, size, protection, flags, fd, offset);
}

int munmap(void *start, size_t size) {
    for (int i = 0; i < RANGES; ++i)
        if (ranges[i].size && ranges[i].start == start) ranges[i].size = 0;
    return REAL(munmap)(start, size);
}

int ioctl(int fd, unsigned long request, ...) {
    va_list more;
    va_start(more, request);
    void *data = va_arg(more, void *);
    va_end(more);
    char buffer[4096];
    const char *path = opened(fd, buffer, sizeof buffer);
    static uint32_t lines[GPIOHANDLES_MAX], count;
    if (strncmp(path, "/dev/gpiochip", 13) != 0) return REAL(ioctl)(fd, request, data);
    if (request == GPIO_GET_CHIPINFO_IOCTL) {
        struct gpiochip_info *info = data;
        memset(info, 0, sizeof *info);
        snprintf(info->label, sizeof info->label, "%s", getenv("EMU_GPIO"));
    } else if (request == GPIO_GET_LINEHANDLE_IOCTL) {
        struct gpiohandle_request *asked = data;
        if (!(asked->flags & GPIOHANDLE_REQUEST_INPUT)) return errno = EINVAL, -1;
        memcpy(lines, asked->lineoffsets, sizeof lines);
        count = asked->lines;
        asked->fd = dup(fd);
    } else if (request == GPIOHANDLE_GET_LINE_VALUES_IOCTL) {
        for (uint32_t i = 0; i < count; ++i) ((struct gpiohandle_data *)data)->values[i] = (uint8_t)ask(LINE, lines[i], 0);
    } else {
        return errno = ENOTTY, -1;
    }
    return 0;
}
