/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "exchange.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

bool exchange_abandon(struct exchange *x, const char *kind)
{
    errors_add(&x->errors, kind, x->in_flight);
    x->in_flight = 0;
    return false;
}

bool exchange_lost(struct exchange *x, const char *why)
{
    (void)fail_server(x->failure, "lost", "connection lost after %" PRIu64 " replies: %s", x->ok, why);
    return exchange_abandon(x, "lost");
}

bool exchange_failed(struct exchange *x, int error)
{
    if (error != ENOMEM && error != ENOBUFS)
        return exchange_lost(x, strerror(error));
    (void)fail_resources(x->failure, "%s after %" PRIu64 " replies", strerror(error), x->ok);
    return exchange_abandon(x, "resources");
}

bool exchange_protocol_error(struct exchange *x, const char *why)
{
    (void)fail_server(x->failure, "protocol", "protocol error after %" PRIu64 " replies: %s", x->ok, why);
    return exchange_abandon(x, "protocol");
}

bool exchange_wrong_size(struct exchange *x, int64_t size)
{
    (void)fail(x->failure, EXIT_REQUESTS, "value_size",
               "a value has %" PRId64 " bytes, and VALUE_SIZE is %" PRId64 ": fill and test with the same size", size,
               x->settings->value_size);
    return exchange_abandon(x, "value_size");
}

bool exchange_timed_out(struct exchange *x)
{
    (void)fail_server(x->failure, "timeout", "no reply for %g seconds, after %" PRIu64 " replies", x->settings->timeout,
                      x->ok);
    return exchange_abandon(x, "timeout");
}

bool exchange_fail_on_errors(struct exchange *x)
{
    if (x->errors.total == 0)
        return true;
    char kinds[256] = "";
    errors_describe(&x->errors, kinds, sizeof kinds);
    return fail(x->failure, EXIT_REQUESTS, "reply", "%" PRIu64 " of %" PRIu64 " requests failed (%s); first: %s",
                x->errors.total, x->sent, kinds, x->errors.first);
}
