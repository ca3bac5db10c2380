/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The two bounds of a latency, and the arrivals, on a virtual machine where the truth is known to the nanosecond. */
#define _GNU_SOURCE
#include <math.h>

#include "../offline.h"
#include "../virtual.h"
#include "check.h"

enum { REQUESTS = 4000, MOST_STOPS = 64 };
#define PERIOD (200 * NS_PER_US)

static uint64_t services[REQUESTS];

/* Random stops within the schedule, of 10 us to `longest`, sorted and without overlap. */
static size_t random_stops(struct rng *r, struct stop *to, size_t most, uint64_t longest)
{
    size_t count = 0;
    uint64_t span = REQUESTS * PERIOD, at = VIRTUAL_START + NS_PER_MS;
    size_t wanted = rng_next(r) % (most + 1);
    for (size_t i = 0; i < wanted; i++) {
        at += 1 + (uint64_t)(-log1p(-rng_unit(r)) * (double)span / (double)(wanted + 1));
        uint64_t length = (uint64_t)(10e3 * pow((double)longest / 10e3, rng_unit(r)));
        if (at + length > VIRTUAL_START + span)
            break;
        to[count++] = (struct stop){at, at + length};
        at += length;
    }
    return count;
}

static size_t merge_stops(const struct stops *a, const struct stops *b, struct stop *to)
{
    size_t i = 0, k = 0, count = 0;
    while (i < a->count || k < b->count) {
        struct stop next = k == b->count || (i < a->count && a->list[i].begin <= b->list[k].begin) ? a->list[i++]
                                                                                                   : b->list[k++];
        if (count > 0 && next.begin <= to[count - 1].end)
            to[count - 1].end = max_u64(to[count - 1].end, next.end);
        else
            to[count++] = next;
    }
    return count;
}

struct plan {
    struct stop client[2 * MOST_STOPS], server[2 * MOST_STOPS];
    struct schedule schedule;
};

/* Stalls of the server, freezes of the machine and stops of the client, in random numbers and lengths. */
static void random_plan(struct rng *r, struct plan *p)
{
    struct stop stalls[MOST_STOPS], freezes[MOST_STOPS], stops[MOST_STOPS];
    struct stops stalled = {stalls, random_stops(r, stalls, MOST_STOPS, 30 * NS_PER_MS)};
    struct stops frozen = {freezes, rng_next(r) % 2 ? random_stops(r, freezes, MOST_STOPS, 10 * NS_PER_MS) : 0};
    struct stops stopped = {stops, rng_next(r) % 2 ? random_stops(r, stops, MOST_STOPS, 30 * NS_PER_MS) : 0};
    memset(&vm, 0, sizeof vm);
    vm.client = (struct stops){p->client, merge_stops(&frozen, &stopped, p->client)};
    vm.server = (struct stops){p->server, merge_stops(&frozen, &stalled, p->server)};
    vm.wakeup = 2000 + rng_next(r) % 60000;
    vm.services = services;
    vm.service_count = REQUESTS;
    double load = 0.05 + rng_unit(r) * 0.75;
    for (size_t i = 0; i < REQUESTS; i++)
        services[i] = 3000 + (uint64_t)(-log1p(-rng_unit(r)) * load * (double)PERIOD);
    p->schedule = (struct schedule){
        .connections = 1 + rng_next(r) % 2 * 3, .pipeline = 1 + rng_next(r) % 2 * 7, .requests = REQUESTS,
        .period = PERIOD, .seed = rng_next(r), .pacing = (enum pacing)(rng_next(r) % 3),
        .arrivals = (enum arrivals)(rng_next(r) % 3)};
}

static uint64_t truth[REQUESTS], lower[REQUESTS], upper[REQUESTS];

int main(int argc, char **argv)
{
    struct rng r;
    int plans = argc > 1 ? atoi(argv[1]) : 1000;
    int bad_upper = 0, bad_lower = 0, bad_raw = 0, bad_mean = 0;
    double worst = 0, worst_mean = 0, ratio = 0;
    rng_seed(&r, 1, 0);
    for (int n = 0; n < plans; n++) {
        static struct plan p;
        static struct virtual_run run;
        random_plan(&r, &p);
        virtual_run(&run, &p.schedule);
        if (!run.complete || run.measurement->raw_used != REQUESTS) abort();
        ideal_latencies(&run, REQUESTS, truth);
        bool single = p.schedule.connections == 1;
        double tm = 0, lm = 0, um = 0; int raw = 0, ru = 0;
        for (int i = 0; i < REQUESTS; i++) {
            lower[i] = run.measurement->raw[i].server;
            upper[i] = run.measurement->raw[i].intended;
            tm += (double)truth[i]; lm += (double)lower[i]; um += (double)upper[i];
            if (single && lower[i] > truth[i] + CLOCK_NS) raw++;
            if (single && upper[i] + CLOCK_NS < truth[i]) ru++;
        }
        sort_u64(truth, REQUESTS); sort_u64(lower, REQUESTS); sort_u64(upper, REQUESTS);
        int bl = 0, bu = 0; double w = 0;
        for (int i = 0; i < REQUESTS; i++) {
            if (lower[i] > truth[i] + 100) { bl++; w = fmax(w, (double)(lower[i] - truth[i]) / 1e3); }
            if (upper[i] + 100 < truth[i]) bu++;
        }
        bad_upper += bu > 0; bad_lower += bl > 0; bad_raw += raw > 0; bad_mean += lm > tm * 1.0001;
        worst = fmax(worst, w); worst_mean = fmax(worst_mean, lm / tm - 1);
        ratio += lm / tm;
        { size_t k = REQUESTS * 99 / 100 - 1; double e = ((double)lower[k] - (double)truth[k]) / (double)truth[k]; static double we; static int ne, ne2; if (e > 0.0005) ne++; if (e > 0.02) ne2++; we = fmax(we, e); if (n == plans - 1) printf("p99 over: %d, by 2%%: %d, worst %.3f\n", ne, ne2, we);
        if (getenv("P") && e > 0.01) printf("p99 %d %.3f: lower %.1f truth %.1f; arr %d conns %zu\n", n, e, lower[k]/1e3, truth[k]/1e3, p.schedule.arrivals, p.schedule.connections); }
        if (getenv("V")) printf("%d: conns %zu depth %zu pacing %d arr %d wake %lu stops c %zu s %zu: mean %.1f <= %.1f <= %.1f us; raw lower bad %d upper bad %d; sorted lower bad %d (worst %.1f us) upper bad %d\n", n, p.schedule.connections, p.schedule.pipeline, p.schedule.pacing, p.schedule.arrivals, vm.wakeup, vm.client.count, vm.server.count, lm/REQUESTS/1e3, tm/REQUESTS/1e3, um/REQUESTS/1e3, raw, ru, bl, w, bu);
        virtual_end(&run);
    }
    printf("%d plans: upper bad %d, lower sorted bad %d (worst %.1f us), raw bad %d, mean bad %d (worst %.4f), lower/truth mean %.3f\n", plans, bad_upper, bad_lower, worst, bad_raw, bad_mean, worst_mean, ratio / plans);
    return 0;
}
