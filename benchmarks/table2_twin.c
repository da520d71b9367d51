/* A twin in C of `scheduler.engine.simulate` under `scheduler.Credit` (with or without `Anytime`), for tuning only: same integer nanoseconds, same
 * order of floating-point sums, so the same schedule. tests/scheduler compares the two request by request. Nothing that ships calls it. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { STAGES = 8, BATCH = 16, LOOK = 24, PATIENCE = 10, OVERLOAD = 4000 };

typedef struct { int64_t deadline; int id; } Sample;

typedef struct {
    int n, stages, b_max, slots, places, queue_max, last, radix;
    int64_t slo, width, gap;
    const int64_t *arrival, *latency, *actual; /* latency[stage * b_max + b - 1]: what the policy believes; actual: what runs take */
    const int32_t *leaves, *place;    /* place: index by counts past the queue, base radix */
    const double *q, *v, *gain;       /* q as CountTable.q; v, gain: [stage][last + 1] */
    double anytime;                   /* share of started samples that may be answered early; 0: never */
    int rescue_only;
} World;

static Sample wait_[STAGES][1 << 16];
static int count_[STAGES], head_;

static int64_t step(const World *w, int64_t age) {
    if (age < w->width) return 0;
    int64_t at = age / w->width;
    return at < w->last ? at : w->last;
}

static Sample *entry(int s) { return s ? wait_[s] : wait_[0] + head_; }

/* Take the marked samples out of stage s's line, keeping the order of the rest. */
static void take(int s, const char *mark, int size) {
    Sample *line = entry(s);
    int kept = 0, gone = 0, prefix = 1;
    for (int i = 0; i < size; i++) prefix &= mark[i];
    if (prefix && s == 0) { head_ += size; count_[0] -= size; return; }
    int m = count_[s];
    for (int i = 0; i < m; i++) {
        if (i < 512 && gone < size && mark[i]) gone++;
        else line[kept++] = line[i];
    }
    count_[s] = kept;
}

int twin(const World *w, int64_t *latency_ns, int32_t *early) {
    int i = 0, held = 0, done = 0, started = 0, answered = 0, S = w->stages, B = w->b_max;
    int64_t now = 0;
    memset(count_, 0, sizeof count_);
    head_ = 0;
    while (done < w->n) {
        while (i < w->n && w->arrival[i] <= now) {
            if (head_ + count_[0] == 1 << 16) { memmove(wait_[0], wait_[0] + head_, count_[0] * sizeof(Sample)); head_ = 0; }
            wait_[0][head_ + count_[0]++] = (Sample){w->arrival[i] + w->slo, i};
            i++;
        }
        if (count_[0] > OVERLOAD) return -1;
        if (!count_[0] && !held) { now = w->arrival[i]; continue; }
        int queued = count_[0] < w->queue_max ? count_[0] : w->queue_max, key = 0;
        for (int s = 1; s < S; s++) key = key * w->radix + count_[s];
        const double *cost = w->q + ((int64_t)queued * w->places + w->place[key]) * (S * B + 1);
        int64_t base = now + w->slo, oldest = -1;
        int old_stage = 0, look[STAGES], best_stage = -1, best_size = 0, best_of[BATCH];
        for (int s = 0; s < S; s++) {
            look[s] = count_[s] < LOOK ? count_[s] : LOOK;
            if (look[s] && base - entry(s)->deadline > oldest) { oldest = base - entry(s)->deadline; old_stage = s; }
        }
        if (oldest > PATIENCE * w->slo) {
            int room = B;
            if (old_stage == 0 && w->slots - held <= 0) for (int s = 0; s < S; s++) { if (look[s]) old_stage = s; }
            else if (old_stage == 0) room = w->slots - held;
            best_stage = old_stage;
            best_size = room < B ? room : B;
            if (best_size > count_[old_stage]) best_size = count_[old_stage];
            for (int k = 0; k < best_size; k++) best_of[k] = k;
        } else {
            double best = 1e300;
            for (int s = 0; s < S; s++) {
                int cap = B < look[s] ? B : look[s];
                if (s == 0) { if (cap > w->slots - held) cap = w->slots - held; if (cap > queued) cap = queued; }
                for (int b = 0; b < cap; b++) {
                    int64_t d = w->latency[s * B + b];
                    double score = cost[s * B + b], top[LOOK];
                    int of[LOOK];
                    for (int t = 0; t < S; t++) {
                        const double *v = w->v + t * (w->last + 1);
                        for (int j = 0; j < look[t]; j++) score -= v[step(w, base - entry(t)[j].deadline + d)];
                    }
                    const double *g = w->gain + s * (w->last + 1);
                    for (int j = 0; j < look[s]; j++) {
                        double x = g[step(w, base - entry(s)[j].deadline + d)];
                        int p = j;
                        while (p > 0 && top[p - 1] < x) { top[p] = top[p - 1]; of[p] = of[p - 1]; p--; }
                        top[p] = x;
                        of[p] = j;
                    }
                    for (int k = 0; k <= b; k++) score -= top[k];
                    if (score < best) { best = score; best_stage = s; best_size = b + 1; memcpy(best_of, of, sizeof(int) * (b + 1)); }
                }
            }
            if (i < w->n) {
                double score = cost[S * B];
                for (int t = 0; t < S; t++)
                    for (int j = 0; j < look[t]; j++) score -= w->v[t * (w->last + 1) + step(w, base - entry(t)[j].deadline + w->gap)];
                if (score < best) { best_stage = -1; }
            }
        }
        int64_t end = best_stage < 0 ? now : now + w->latency[best_stage * B + best_size - 1];
        char mark[512] = {0};
        for (int k = 0; k < best_size && best_stage >= 0; k++) mark[best_of[k]] = 1;
        if (w->anytime > 0) {
            int before = answered;
            for (int s = 1; s < S; s++) {
                int kept = 0;
                for (int j = 0; j < count_[s]; j++) {
                    Sample x = wait_[s][j];
                    int64_t next = s == best_stage && mark[j] ? end : end + w->latency[s * B];
                    if (next > x.deadline && !(w->rescue_only && now > x.deadline) && answered + 1 <= w->anytime * started) {
                        latency_ns[x.id] = now - w->arrival[x.id];
                        early[x.id] = 1;
                        answered++; held--; done++;
                    } else wait_[s][kept++] = x;
                }
                count_[s] = kept;
            }
            if (answered > before) continue;
        }
        if (best_stage < 0) { now = w->arrival[i]; continue; }
        Sample batch[BATCH];
        int m = 0;
        for (int k = 0; k < count_[best_stage] && m < best_size && k < 512; k++) if (mark[k]) batch[m++] = entry(best_stage)[k];
        take(best_stage, mark, best_size);
        if (best_stage == 0) { held += best_size; started += best_size; }
        end = now + w->actual[best_stage * B + best_size - 1];
        for (int k = 0; k < m; k++) {
            Sample x = batch[k];
            if (w->leaves[x.id] == best_stage) {
                latency_ns[x.id] = end - w->arrival[x.id];
                early[x.id] = 0;
                held--; done++;
            } else {
                int t = best_stage + 1, p = count_[t]++;
                while (p > 0 && wait_[t][p - 1].id > x.id) { wait_[t][p] = wait_[t][p - 1]; p--; }
                wait_[t][p] = x;
            }
        }
        now = end;
    }
    return 0;
}
