/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "signals.h"

void read_small_file(const char *path, char *to, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* a FIFO would wait for ever */
    ssize_t n = fd < 0 ? 0 : read(fd, to, size - 1);
    to[n > 0 ? n : 0] = '\0';
    if (fd >= 0)
        (void)close(fd);
}

/* Decides whether somebody else has put a link or a pipe here, such as in /tmp: a link leads elsewhere, and a pipe without
 * a reader is waited for. Sets `link` if this is a link that may be followed. */
static bool is_trap(const char *path, bool *link)
{
    struct stat status;
    int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    *link = false;
    if (fd < 0)
        return false;
    bool known = fstat(fd, &status) == 0;
    (void)close(fd);
    *link = known && S_ISLNK(status.st_mode);
    return !known || ((*link || S_ISFIFO(status.st_mode)) && status.st_uid != 0 && status.st_uid != geteuid());
}

FILE *create_file(const char *path)
{
    struct stat status;
    bool link;
    if (is_trap(path, &link)) {
        errno = EPERM;
        return NULL;
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | (link ? O_TRUNC : O_NOFOLLOW), 0666);
    if (fd >= 0 && !link && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
        (status.st_uid != geteuid() || status.st_nlink != 1 || ftruncate(fd, 0) != 0)) {
        (void)close(fd);
        errno = EPERM;
        return NULL;
    }
    return fd < 0 ? NULL : fdopen(fd, "w");
}

void occupy_standard_streams(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) == -1 && open("/dev/null", O_RDONLY) != fd)
            _exit(EXIT_OUTPUT);
}

bool read_credentials(struct credentials *who, const struct settings *s, struct failure *f)
{
    char *variable = getenv("SOLOTEST_PASSWORD");
    size_t length = variable != NULL ? strlen(variable) : 0;
    bool fits = length < sizeof who->password;
    if (fits && length > 0)
        memcpy(who->password, variable, length);
    if (variable != NULL)
        explicit_bzero(variable, length); /* unsetenv() alone leaves it in memory */
    (void)unsetenv("SOLOTEST_PASSWORD");
    if (s->password_file != NULL) {
        read_small_file(s->password_file, who->password, sizeof who->password);
        length = strcspn(who->password, "\r\n");
        memset(who->password + length, 0, sizeof who->password - length);
        fits = length + 1 < sizeof who->password;
        if (length == 0)
            return fail_not_allowed(f, "--password-file", s->password_file, "a readable file with a password");
    }
    if (!fits)
        return fail_usage(f, "the password is too long; allowed: up to %zu bytes", sizeof who->password - 2);
    who->user = s->user;
    who->present = length > 0;
    if (s->user != NULL && !who->present)
        return fail_not_allowed(f, "--user", s->user, "a user with a password from a file or the environment");
    return true;
}

bool pin_to_cpu(const struct settings *s, struct failure *f)
{
    char number[24];
    cpu_set_t set;
    if (s->cpu < 0)
        return true;
    CPU_ZERO(&set);
    CPU_SET((size_t)s->cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) == 0)
        return true;
    (void)snprintf(number, sizeof number, "%" PRId64, s->cpu);
    return fail_not_allowed(f, "--cpu", number, "a CPU of this machine that this process may use");
}

void prepare_process(void)
{
    catch_signals();
    (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); /* by default sleeps end 50 us late */
}

#define STACK_RESERVE (128u << 10)

/* Touches the stack that may be needed, so that it is there when memory is locked. */
static void touch_stack(void)
{
    volatile char room[STACK_RESERVE];
    for (size_t i = 0; i < sizeof room; i += 1024)
        room[i] = 0;
}

bool lock_memory(void)
{
    touch_stack();
    if (mlockall(MCL_CURRENT) == 0)
        return true;
    (void)fprintf(stderr,
                  "solotest: warning: cannot lock memory (%s): the client's own page faults may "
                  "appear as latency\n",
                  strerror(errno));
    return false;
}
