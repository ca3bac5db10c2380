/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The latencies a second time: written from the rules in docs/latency-rules.md, with signed numbers and nothing of latency.h,
 * and computed after the run from what crossed the border between engine and kernel (virtual.h). Both must agree in
 * each sample to the nanosecond, and in each slot of each histogram.
 */
#ifndef SECOND_H
#define SECOND_H

#include "../unit/check.h"
#include "virtual.h"

/* One reply. */
struct sample {
    int64_t due, sent, handed_over, looked, read, waited, arrived;
    bool stamped, known; /* known: by the stamp, this reply arrived at `arrived` */
    bool behind;         /* an earlier reply was missing when it was due */
    bool last;           /* the read ended with it */
    size_t first, end;   /* the replies, one after the other, whose times are known only together */
    int64_t service, response, intended, lateness, punctual, wakeup, server, if_overloaded;
};

static inline int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Adds to each read how long its last byte had waited. A wall clock that moved by more than 20 us, and one part in eight of
 * the time since, was set: then that is not known. */
static void judge_stamps(void)
{
    int64_t offset = 0, at = 0;
    bool first = true;
    for (size_t i = 0; i < vm.reads.count; i++) {
        struct logged *r = &vm.reads.list[i];
        int64_t new_offset = (int64_t)r->wall - (int64_t)r->after;
        r->steady = r->stamped && (first || llabs(new_offset - offset) <= 20000 + ((int64_t)r->after - at) / 8);
        r->waited = r->steady ? later(0, (int64_t)r->wall - (int64_t)r->stamp) : 0;
        if (r->stamped) {
            first = false;
            offset = new_offset;
            at = (int64_t)r->after;
        }
    }
}

/* Adds to each send when surely no reply waited for the client: when it had last looked and then read all that was
 * there, when the last byte of a read arrived that had waited for it, or at the send, if nothing was under way. */
static void find_looks(void)
{
    size_t look = 0, send = 0, read = 0, under_way = 0;
    int64_t looked = 0, all_read = 0, last_read = 0;
    for (size_t order = 0; order < vm.logged; order++) {
        if (look < vm.looks.count && vm.looks.list[look].order == order) {
            looked = all_read;
            all_read = (int64_t)vm.looks.list[look++].after;
        } else if (read < vm.reads.count && vm.reads.list[read].order == order) {
            const struct logged *r = &vm.reads.list[read++];
            if (r->full)
                all_read = looked;
            else if (r->blocking && r->steady)
                all_read = later(all_read, (int64_t)r->after - r->waited);
            under_way -= r->count;
            if (r->count > 0)
                last_read = (int64_t)r->after;
        } else {
            struct logged *s = &vm.sends.list[send++];
            if (under_way == 0)
                all_read = (int64_t)s->before;
            s->looked = all_read;
            s->last_read = last_read;
            s->under_way = under_way;
            under_way += s->count;
        }
    }
}

/* Finds the request of each reply, in the order in which replies were read. */
static size_t match(const struct virtual_run *run, struct sample *samples)
{
    static size_t next[MOST_CONNECTIONS];
    size_t *place = calloc(vm.sends.count + 1, sizeof *place); /* the first request of each send */
    size_t *taken = calloc(vm.sends.count + 1, sizeof *taken);
    size_t total = 0;
    for (size_t i = 0; i < vm.sends.count; i++)
        place[i + 1] = place[i] + vm.sends.list[i].count;
    memset(next, 0, sizeof next);
    for (size_t i = 0; i < vm.reads.count; i++) {
        const struct logged *r = &vm.reads.list[i];
        for (size_t k = 0; k < r->count; k++) {
            size_t *send = &next[r->connection];
            while (vm.sends.list[*send].connection != r->connection || taken[*send] == vm.sends.list[*send].count)
                ++*send;
            const struct logged *s = &vm.sends.list[*send];
            struct sample *x = &samples[total++];
            bool first_of_send = taken[*send] == 0;
            *x = (struct sample){.due = (int64_t)run->due[place[*send] + taken[*send]++],
                                 .sent = (int64_t)s->before,
                                 .handed_over = (int64_t)s->before,
                                 .looked = s->looked,
                                 .read = (int64_t)r->after,
                                 .stamped = r->steady,
                                 .waited = r->waited};
            if (s->after - s->before > 1000000) /* away for more than 1 ms while it sent */
                x->handed_over = (int64_t)s->after;
            x->last = r->to_the_end && k == r->count - 1;
            x->known = x->last && x->stamped;
            x->stamped = x->stamped && x->handed_over == x->sent;
            x->arrived = x->read - x->waited;
            x->behind = s->under_way > 0 || !first_of_send || s->last_read > x->due;
        }
    }
    free(place);
    free(taken);
    return total;
}

/* Replies whose arrival is not known belong together with the next one that is, unless the server may have been idle in
 * between: then its request was sent after the read before. */
static void join(struct sample *samples, size_t count)
{
    size_t first = 0;
    for (size_t i = 0; i < count; i++) {
        bool goes_on = i > 0 && !samples[i - 1].last && samples[i].sent <= samples[i - 1].read;
        if (!goes_on)
            first = i;
        samples[i].first = first;
    }
}

/* service, intended, wakeup; response by Lindley's recursion; what is left is lateness. */
static void compute_upper(struct sample *samples, size_t count)
{
    int64_t ideal_free = 0, before = 0;
    for (size_t i = 0; i < count; i++) {
        struct sample *x = &samples[i];
        x->service = x->read - x->sent;
        x->intended = x->read - x->due;
        x->wakeup = earlier(x->waited, x->service);
        int64_t reply = x->wakeup > 1000000 ? x->read - x->wakeup : x->read; /* a shorter wait every client has */
        int64_t work = later(0, reply - later(x->sent, before));
        ideal_free = later(x->due, ideal_free) + work;
        before = later(before, reply);
        x->response = ideal_free - x->due;
        x->lateness = later(0, x->intended - x->response);
        int64_t arrived = x->known ? x->arrived : x->read;
        if (x->sent - x->due > 100000 || x->handed_over != x->sent)
            x->punctual = x->intended;
        else
            x->punctual = later(arrived, x->sent) - (x->behind ? x->due : x->sent);
    }
}

/* How long the server may have been idle among the replies up to `end` whose times are known only together: before each
 * send but the first, since the client had last looked. No time counts twice. */
static int64_t idle(const struct sample *samples, size_t end, int64_t before)
{
    const struct sample *first = &samples[samples[end].first];
    int64_t sum = 0, counted = first->handed_over;
    for (const struct sample *x = first + 1; x <= &samples[end]; x++) {
        int64_t from = later(x->looked, later(first->handed_over, before));
        if (x->handed_over >= counted)
            from = later(from, counted);
        sum += later(0, x->handed_over - from);
        counted = later(counted, x->handed_over);
    }
    return sum;
}

/* The lower bound. Returns true if the server was overloaded. */
static bool compute_lower(struct sample *samples, size_t count, int64_t period)
{
    int64_t ideal_free = 0, before = 0, busy = 0, last_due = 0, begin_of_first = 0, rest = 0, end_of_long = 0;
    for (size_t i = 0; i < count; i++) {
        struct sample *x = &samples[i], *first = &samples[x->first];
        int64_t begin = later(x->due, ideal_free), work = 0;
        last_due = later(last_due, x->due);
        if (x->first == i)
            begin_of_first = begin;
        ideal_free = begin;
        if (x->known) {
            work = later(0, x->arrived - later(first->handed_over, before) - idle(samples, i, before));
            before = later(before, x->arrived);
            if (first->sent - begin_of_first <= period / 2) /* otherwise the client was late: it counts as nothing */
                ideal_free = later(begin, begin_of_first + work);
        }
        if (x->known) { /* the rest of a long one can only be the work of requests that were under way */
            int64_t most = 5 * period * (int64_t)(i - x->first + 1);
            int64_t usual = period * (int64_t)(i - x->first + 1);
            int64_t claimable = first->handed_over <= end_of_long ? rest : 0;
            int64_t own = earlier(work, most), claimed = earlier(claimable, later(0, usual - own));
            if (work > most)
                end_of_long = x->arrived;
            busy += own + claimed;
            rest = work - own + claimable - claimed;
        }
        x->server = earlier(ideal_free, begin + period) - last_due;
        x->if_overloaded = later(x->server, samples[0].due + busy - last_due);
    }
    return count > 0 && last_due > samples[0].due && busy >= last_due - samples[0].due;
}

/* By the table in docs/latency-rules.md: 256 slots for the values below 256, then 128 for each doubling. */
static size_t slot_of(int64_t value)
{
    size_t doublings = 0;
    while (value >= 256) {
        value /= 2;
        doublings++;
    }
    return doublings * 128 + (size_t)value;
}

static size_t differing_slots(const struct histogram *h, const struct sample *samples, size_t count, size_t of,
                              bool stamped)
{
    static uint64_t slots[HIST_SLOTS];
    uint64_t total = 0;
    wide sum = 0;
    int64_t least = INT64_MAX, most = 0;
    size_t different = 0;
    memset(slots, 0, sizeof slots);
    for (size_t i = 0; i < count; i++) {
        if (stamped && !samples[i].stamped)
            continue;
        int64_t value = *(const int64_t *)(const void *)((const char *)&samples[i] + of);
        slots[slot_of(value)]++;
        least = earlier(least, value);
        most = later(most, value);
        sum += (uint64_t)value;
        total++;
    }
    for (size_t i = 0; i < HIST_SLOTS; i++)
        different += slots[i] != h->slots[i];
    return different + (h->count != total) + (h->sum != sum) +
           (total > 0 && (h->min != (uint64_t)least || h->max != (uint64_t)most));
}

#define DIFFERING(field, stamped) differing_slots(&m->field, samples, count, offsetof(struct sample, field), stamped)

static size_t differing_samples(const struct measurement *m, const struct sample *samples)
{
    size_t different = 0;
    for (size_t i = 0; i < m->raw_used; i++) {
        const struct latencies *a = &m->raw[i];
        const struct sample *b = &samples[i];
        bool same = (int64_t)a->service == b->service && (int64_t)a->response == b->response &&
                    (int64_t)a->intended == b->intended && (int64_t)a->lateness == b->lateness &&
                    (int64_t)a->punctual == b->punctual && (int64_t)a->wakeup == b->wakeup &&
                    (int64_t)a->server == b->server && a->stamped == b->stamped;
        different += !same;
    }
    return different;
}

/* Compares a run in which all requests were answered with the second computation. */
static void check_second(const struct virtual_run *run)
{
    const struct measurement *m = run->measurement;
    struct sample *samples = calloc((size_t)run->exchange.planned + 1, sizeof *samples);
    judge_stamps();
    find_looks();
    size_t count = match(run, samples);
    join(samples, count);
    compute_upper(samples, count);
    bool overloaded = compute_lower(samples, count, (int64_t)run->exchange.pacer.period);
    for (size_t i = 0; overloaded && i < count; i++)
        samples[i].server = samples[i].if_overloaded;
    CHECK(count == m->raw_used && overloaded == server_is_overloaded(&run->exchange.bound));
    if (count == m->raw_used)
        CHECK(differing_samples(m, samples) == 0);
    CHECK(DIFFERING(service, false) == 0 && DIFFERING(response, false) == 0);
    CHECK(DIFFERING(intended, false) == 0 && DIFFERING(lateness, false) == 0);
    CHECK(DIFFERING(punctual, false) == 0);
    CHECK(DIFFERING(wakeup, true) == 0 && DIFFERING(server, true) == 0);
    free(samples);
}

#endif
