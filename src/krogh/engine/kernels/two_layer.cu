// Rounds of SGD for two-layer ReLU networks on parities of packed bits; a block of threads trains a trial, or a cluster of
// MEMBERS blocks where the weights need the registers of several multiprocessors.
//
//     f(x) = u·relu(Wx + b) [+ c],    θ ← (1 - λ)θ + (rate/batch) Σ_s slope_s ∂f(x_s)/∂θ,    slope = -dloss/df
//
// W (neurons × inputs, the bias being one more input that is always 1) stays in registers for a whole visit, in the
// layout in which `mma.m16n8k16` leaves its sums: lane 4g + t holds rows g and g + 8, columns 2t and 2t + 1 of a tile of
// 16 neurons × 8 inputs. Two tiles side by side are in the layout of the first factor of the next product, so W feeds the
// forward product without a shuffle, as two halves: half(w) + half(w - half(w)) keeps 22 bits. W is kept 16-fold (a
// power of two: nothing is rounded), so that the second half is a normal number wherever it matters; |w| must stay below
// 4095, or the trial counts as diverged.
//
// Inputs are bits. Signs are made from them in registers, two to a word, by a shift and a mask: the two halves of a word
// take bits that lie 16 apart, and inputs and samples are numbered accordingly (`input_at`, `sample_at`). The backward
// factor slope·1[z > 0] is 0 or ±2 for the hinge and the correlation, exact in half precision; other losses take two
// products for its two halves.
//
// The bits are those of `jax.random.bits` (Threefry, partitionable), so that a trial sees the same examples on every
// path. Compile-time constants are listed in krogh/engine/resident.py.

typedef unsigned int u32;

#define FULL 0xffffffffu
#define RUNNING 0
#define CONVERGED 1
#define FAILED 2
#define DIVERGED 3
#define SIGNS 0x80008000u
#define ONES 0x3C003C00u
#define SCALE 16.0f
#define STEPS (TILES / 2)
#define ROWS ((TILES + 3) / 4)
#define LAST (N - 32 * (NW - 1))  // inputs in the last word; the bias comes after them
#define SIGNED (LOSS == 0 || LOSS == 3)
#define PARTS (SIGNED ? 1 : 2)
#define TWO (SIGNED ? 2.0f : 1.0f)
#if MEMBERS > 1
#define CLUSTER __cluster_dims__(MEMBERS, 1, 1)
#else
#define CLUSTER
#endif

// The input in a column of a tile of 8, and the tile and column of an input of a word.
__device__ __forceinline__ constexpr int input_at(int tile, int column) {
    const int s = 12 - 4 * (tile & 3) + (column >> 1);
    return (tile >> 2) * 32 + ((column & 1) ? 31 - s : 15 - s);
}
#define BIT_TILE(bit) (((bit) & 15) >> 2)
#define BIT_COLUMN(bit) ((3 - ((bit) & 3)) * 2 + ((bit) >> 4))
#define BIAS_TILE (4 * (NW - 1) + BIT_TILE(LAST))
#define BIAS_COLUMN BIT_COLUMN(LAST)

// Threefry-2x32 with 20 rounds, as JAX has it.
__device__ __forceinline__ void threefry(u32 k0, u32 k1, u32 &x0, u32 &x1) {
    const u32 k2 = k0 ^ k1 ^ 0x1BD11BDAu;
    x0 += k0;
    x1 += k1;
#define ROUND(r) x0 += x1; x1 = __funnelshift_l(x1, x1, r); x1 ^= x0;
    ROUND(13) ROUND(15) ROUND(26) ROUND(6) x0 += k1; x1 += k2 + 1;
    ROUND(17) ROUND(29) ROUND(16) ROUND(24) x0 += k2; x1 += k0 + 2;
    ROUND(13) ROUND(15) ROUND(26) ROUND(6) x0 += k0; x1 += k1 + 3;
    ROUND(17) ROUND(29) ROUND(16) ROUND(24) x0 += k1; x1 += k2 + 4;
    ROUND(13) ROUND(15) ROUND(26) ROUND(6) x0 += k2; x1 += k0 + 5;
}

__device__ __forceinline__ u32 random_word(u32 k0, u32 k1, u32 place) {
    u32 x0 = 0, x1 = place;
    threefry(k0, k1, x0, x1);
    return x0 ^ x1;
}

// krogh.tasks.bits.mixed
__device__ __forceinline__ u32 mixed(u32 word) {
    word = (word ^ (word >> 16)) * 0x85EBCA6Bu;
    word = (word ^ (word >> 13)) * 0xC2B2AE35u;
    return word ^ (word >> 16);
}

// Bit i of lane j becomes bit j of lane i.
__device__ __forceinline__ u32 transposed(u32 x, int lane) {
#define SWAP(w, m)                                                                                              \
    {                                                                                                           \
        const u32 y = __shfl_xor_sync(FULL, x, w);                                                              \
        x = (lane & w) ? ((x & ~(m)) | ((y >> w) & (m))) : ((x & (m)) | ((y & (m)) << w));                      \
    }
    SWAP(16, 0x0000ffffu) SWAP(8, 0x00ff00ffu) SWAP(4, 0x0f0f0f0fu) SWAP(2, 0x33333333u) SWAP(1, 0x55555555u)
    return x;
}

__device__ __forceinline__ void mma(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ u32 halves(float low, float high) {
    u32 r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}

__device__ __forceinline__ void floats(u32 pair, float &low, float &high) {
    asm("{.reg .f16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}"
        : "=f"(low), "=f"(high) : "r"(pair));
}

// All bits of the low half if a < 0, of the high half if b < 0 (signs of zeros count).
__device__ __forceinline__ u32 where_negative(float a, float b) {
    u32 r;
    asm("prmt.b32 %0, %1, %2, 0xFFBB;" : "=r"(r) : "r"(__float_as_uint(a)), "r"(__float_as_uint(b)));
    return r;
}

struct Shared {
    uint4 samples[CHUNK][GROUPS][NW][8];   // [column][tile]: the words of the samples
    uint4 inputs[CHUNK][GROUPS][8][ROWS];  // [column][tile]: of each input a word over samples
    u32 labels[CHUNK][GROUPS];             // bit 1 stands for -1
    float outputs[2][32][WARPS];
    float of_members[2][MEMBERS][32];
};

#if MEMBERS > 1
// A word of the same place in another block's shared memory.
__device__ __forceinline__ void store_to(int member, float *place, float value) {
    u32 there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;"
        : "=r"(there) : "r"((u32)__cvta_generic_to_shared(place)), "r"(member));
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there), "f"(value) : "memory");
}
#endif

// The sum over the cluster's blocks of what each warp of a block knows, in the same order everywhere. One barrier will do:
// a buffer is written again after the next barrier, which nobody passes before all have read it.
__device__ __forceinline__ float over_members(float value, float (&room)[MEMBERS][32], int lane, int warp, int rank) {
#if MEMBERS > 1
    for (int member = warp; member < MEMBERS; member += WARPS) store_to(member, &room[rank][lane], value);
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
    value = 0.0f;
#pragma unroll
    for (int member = 0; member < MEMBERS; member++) value += room[member][lane];
#endif
    return value;
}

// To z of 32 samples, for the neurons of this warp: what the 32 inputs of word w add.
__device__ __forceinline__ void forward(float (&Z)[MT][4][4], const float (&W)[MT][TILES][4], int word, uint4 four,
                                        const u32 (&ones)[4], int t) {
    const u32 w[4] = {four.x << t, four.y << t, four.z << t, four.w << t};
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int k = 2 * word + half, i = 2 * half;
        if (k >= STEPS) continue;
        u32 high[MT][4], low[MT][4];
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int q = 0; q < 4; q++) {
                const float a = W[m][2 * k + (q >> 1)][(q & 1) * 2], b = W[m][2 * k + (q >> 1)][(q & 1) * 2 + 1];
                high[m][q] = halves(a, b);
                float x, y;
                floats(high[m][q], x, y);
                low[m][q] = halves(a - x, b - y);
            }
        const u32 one0 = word == NW - 1 ? ones[i] : ONES, one1 = word == NW - 1 ? ones[i + 1] : ONES;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const u32 b0 = ((w[j] << (12 - 4 * i)) & SIGNS) ^ one0, b1 = ((w[j] << (8 - 4 * i)) & SIGNS) ^ one1;
#pragma unroll
            for (int m = 0; m < MT; m++) mma(Z[m][j], high[m], b0, b1);
#pragma unroll
            for (int m = 0; m < MT; m++) mma(Z[m][j], low[m], b0, b1);
        }
    }
}

__device__ __forceinline__ void set_to_zero(float (&Z)[MT][4][4]) {
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int j = 0; j < 4; j++) Z[m][j][0] = Z[m][j][1] = Z[m][j][2] = Z[m][j][3] = 0.0f;
}

// u·relu(z) of 32 samples, all neurons of the trial: lane i gets sample i. All threads must call it.
__device__ __forceinline__ float output(const float (&Z)[MT][4][4], const float (&u)[MT][2], Shared &sh, int turn,
                                        int lane, int warp, int rank) {
    float (&room)[32][WARPS] = sh.outputs[turn];
    float p[8];
#pragma unroll
    for (int j = 0; j < 4; j++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float sum = 0.0f;
#pragma unroll
            for (int m = 0; m < MT; m++)
                sum += u[m][0] * fmaxf(Z[m][j][h], 0.0f) + u[m][1] * fmaxf(Z[m][j][2 + h], 0.0f);
            p[2 * j + h] = sum;
        }
    // sums over g: each exchange halves what a lane is responsible for
#pragma unroll
    for (int width = 4; width; width >>= 1)
#pragma unroll
        for (int i = 0; i < width; i++) {
            const bool upper = lane & (4 * width);
            const float give = upper ? p[i] : p[i + width], keep = upper ? p[i + width] : p[i];
            p[i] = keep + __shfl_xor_sync(FULL, give, 4 * width);
        }
    const int column = (lane >> 2) & 1, tile = (lane >> 3) & 3;
    room[(column ? 31 : 15) - (4 * tile + (lane & 3))][warp] = p[0];
    __syncthreads();
    float f = 0.0f;
#pragma unroll
    for (int w = 0; w < WARPS; w++) f += room[lane][w];
    return over_members(f, sh.of_members[turn], lane, warp, rank);
}

// W ← keep·W + (rate/batch) Σ_s G x, tile by tile; the bias has a rate and a decay of its own.
template <bool decays>
__device__ __forceinline__ void update(float (&W)[MT][TILES][4], const u32 (&G)[GROUPS][PARTS][MT][2][4],
                       const uint4 (&inputs)[GROUPS][8][ROWS], const float (&cw)[MT][2],
                       const float (&cb)[MT][2], float keep_w, float keep_b, int g, int t) {
#pragma unroll
    for (int c = 0; c < TILES; c++) {
        float D[MT][4];
#pragma unroll
        for (int m = 0; m < MT; m++) D[m][0] = D[m][1] = D[m][2] = D[m][3] = 0.0f;
        const u32 one = c < 4 * (NW - 1) || input_at(c, g) <= N ? ONES : 0u;
#pragma unroll
        for (int group = 0; group < GROUPS; group++) {
            const u32 word = reinterpret_cast<const u32 *>(&inputs[group][g][0])[c] << t;
#pragma unroll
            for (int k = 0; k < 2; k++) {
                const u32 x0 = ((word << (8 * k)) & SIGNS) ^ one, x1 = ((word << (8 * k + 4)) & SIGNS) ^ one;
#pragma unroll
                for (int part = 0; part < PARTS; part++)
#pragma unroll
                    for (int m = 0; m < MT; m++) mma(D[m], G[group][part][m][k], x0, x1);
            }
        }
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const bool bias = c == BIAS_TILE && (e & 1) == (BIAS_COLUMN & 1);
                const float kept = decays ? (bias ? keep_b : keep_w) * W[m][c][e] : W[m][c][e];
                W[m][c][e] = kept + (bias ? cb[m][e >> 1] : cw[m][e >> 1]) * D[m][e];
            }
    }
}

// Arrays have a leading axis of slots. krogh/engine/resident.py gives them by the same names.
extern "C" __global__ void CLUSTER __launch_bounds__(WARPS * 32, BLOCKS) train(
    float *gW, float *gb, float *gu, float *gc,        // parameters, changed in place
    int *gstep, int *gstatus, int *gstreak, int *greached, float *gerror, float *gloss,  // where a trial stands
    const int *guntil,                                 // the step at which this visit ends at the latest
    const u32 *gkey, const u32 *gvalidation_key,       // [2]
    const u32 *gsupport,                               // [NWR] mask of the bits whose parity is the label
    const u32 *gflips,                                 // a label flips if its random word is below
    const float *grate, const float *gdecay,           // [4] of W, b, u, c
    const float *gfactors,                             // [horizon, 2] of rate and decay, if SCHEDULED
    const u32 *gsample, const u32 *gnoise,             // [capacity, NWR] and [capacity], if OFFLINE
    const u32 *gsize, const u32 *gseeds,               // examples that are used; [SHUFFLE, 2]
    const float *gallowed, const float *glikely,       // mistakes on the validation sample, and its prefix, that will do
    const int *gbudget, const int *gconsecutive,
    const u32 *gplaces,                                // [PREFIX] of the listed inputs, for all slots: those looked at first
    int horizon, int capacity) {
    __shared__ Shared sh;
    const int slot = blockIdx.x / MEMBERS, rank = blockIdx.x % MEMBERS;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
    const int until = guntil[slot], budget = gbudget[slot];
    if (gstatus[slot] != RUNNING || gstep[slot] >= until) return;

    float W[MT][TILES][4], u[MT][2];
    float *W0 = gW + (size_t)slot * WIDTH * N, *b0 = gb + (size_t)slot * WIDTH;
    float *u0 = gu + (size_t)slot * WIDTH;
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int neuron = ((rank * WARPS + warp) * MT + m) * 16 + r * 8 + g;
            const bool there = neuron < WIDTH;
            u[m][r] = there ? u0[neuron] / SCALE : 0.0f;
#pragma unroll
            for (int c = 0; c < TILES; c++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const int i = input_at(c, 2 * t + h);
                    float w = 0.0f;
                    if (there && i < N) w = W0[neuron * N + i];
                    if (there && i == N) w = b0[neuron];
                    W[m][c][r * 2 + h] = w * SCALE;
                }
        }
    float c_ = OUTPUT_BIAS ? gc[slot] : 0.0f;
    const u32 *mask = gsupport + slot * NWR;
    u32 ones[4];  // in the last word, halves beyond the bias are no inputs
#pragma unroll
    for (int i = 0; i < 4; i++)
        ones[i] = (input_at(4 * (NW - 1) + i, 2 * t) <= N ? 0x3C00u : 0u) |
                  (input_at(4 * (NW - 1) + i, 2 * t + 1) <= N ? 0x3C000000u : 0u);
    const u32 key0 = gkey[2 * slot], key1 = gkey[2 * slot + 1];
    const float *rate = grate + 4 * slot, *decay = gdecay + 4 * slot;
    const bool decaying = decay[0] != 0.0f || decay[1] != 0.0f;
    const int first = gstep[slot];
    int step = first, turn = 0, status = RUNNING, streak = gstreak[slot], reached = greached[slot];
    float loss = 0.0f, error = gerror[slot];

#pragma unroll 1
    while (step < until && status == RUNNING) {
        loss = 0.0f;
#pragma unroll 1
        for (int base = 0; base < EVERY; base += CHUNK) {
            const int count = min(CHUNK, EVERY - base);
            __syncthreads();
            u32 round0 = 0, round1 = step;  // key of the round's examples
            threefry(key0, key1, round0, round1);
#if NOISY && !OFFLINE
            u32 noise0 = 0, noise1 = 1;
            threefry(round0, round1, noise0, noise1);
#endif
            for (int job = warp; job < count * GROUPS; job += WARPS) {
                const int s = job / GROUPS, group = job % GROUPS, member = group * 32 + lane;
                const u32 place = (base + s) * BATCH + member;  // of the example among the round's
                u32 fold = 0;
#if OFFLINE
                // position step·BATCH + place of the stream of epochs, without overflow; then a keyed permutation
                const u32 m = gsize[slot];
                const unsigned long long position = (unsigned long long)step * BATCH + place;
                const u32 epoch = (u32)(position / m);
                u32 index = (u32)(position % m);
                const u32 *seed = gseeds + (size_t)slot * 2 * SHUFFLE;
                for (int r = 0; r < SHUFFLE; r++) {
                    const u32 a = seed[2 * r], b = seed[2 * r + 1];
                    const u32 shift = mixed(a ^ mixed(epoch)) % m;
                    const u32 partner = index <= shift ? shift - index : shift + (m - index);
                    const u32 coin = mixed(mixed(max(index, partner) ^ b) + mixed(epoch ^ a));
                    index = coin >> 31 ? partner : index;
                }
                const u32 *example = gsample + ((size_t)slot * capacity + index) * NWR;
#endif
#pragma unroll
                for (int w = 0; w < NW; w++) {
                    u32 word = 0;
                    if (w < NWR) {
#if OFFLINE
                        word = example[w];
#else
                        word = random_word(round0, round1, place * NWR + w);
#endif
                        fold ^= word & mask[w];
                        if (w == NW - 1) word &= (1u << LAST) - 1;
                    }
                    const int q = 15 - (lane & 15);
                    reinterpret_cast<u32 *>(&sh.samples[s][group][w][(q & 3) * 2 + (lane >> 4)])[q >> 2] = word;
                    const u32 over = transposed(word, lane);
                    const int tile = 4 * w + BIT_TILE(lane);
                    if (tile < TILES)
                        reinterpret_cast<u32 *>(&sh.inputs[s][group][BIT_COLUMN(lane)][0])[tile] = over;
                }
                bool negative = __popc(fold) & 1;
#if NOISY && OFFLINE
                negative ^= gnoise[(size_t)slot * capacity + index] < gflips[slot];
#elif NOISY
                negative ^= random_word(noise0, noise1, place) < gflips[slot];
#endif
                const u32 label = __ballot_sync(FULL, negative);
                if (lane == 0) sh.labels[s][group] = label;
            }
            __syncthreads();

#pragma unroll 1
            for (int s = 0; s < count; s++) {
                float rate_factor = 1.0f, decay_factor = 1.0f;
#if SCHEDULED
                const float *now = gfactors + ((size_t)slot * horizon + (step - first) + base + s) * 2;
                rate_factor = now[0];
                decay_factor = now[1];
#endif
                u32 G[GROUPS][PARTS][MT][2][4];
                float du[MT][2], dc = 0.0f;
#pragma unroll
                for (int m = 0; m < MT; m++) du[m][0] = du[m][1] = 0.0f;
#pragma unroll
                for (int group = 0; group < GROUPS; group++) {
                    float Z[MT][4][4];
                    set_to_zero(Z);
#pragma unroll
                    for (int w = 0; w < NW; w++) forward(Z, W, w, sh.samples[s][group][w][g], ones, t);
                    const float f = output(Z, u, sh, turn ^= 1, lane, warp, rank) + c_;
                    const u32 label = sh.labels[s][group];
                    const float y = (label >> lane) & 1 ? -1.0f : 1.0f;
                    const bool there = group * 32 + lane < BATCH;
                    u32 S[PARTS][4];
#if LOSS == 0 || LOSS == 3
#if LOSS == 0
                    const float own = 1.0f - y * f;
                    const u32 active = __ballot_sync(FULL, own > 0.0f && there);
                    loss += there ? (own > 0.0f ? own : own != own ? own : 0.0f) : 0.0f;
#else
                    const u32 active = __ballot_sync(FULL, there);
                    loss += there ? -y * f : 0.0f;
#endif
#pragma unroll
                    for (int j = 0; j < 4; j++)  // ±2, or ±0 where the loss is flat
                        S[0][j] = (((active << (4 * j + t)) & SIGNS) >> 1) | ((label << (4 * j + t)) & SIGNS);
                    dc += __popc(active & ~label) - __popc(active & label);
#else
#if LOSS == 1
                    const float slope = there ? 2.0f * (y - f) : 0.0f;
                    loss += there ? (y - f) * (y - f) : 0.0f;
#else
                    const float slope = there ? y / (1.0f + expf(y * f)) : 0.0f;
                    loss += there ? fmaxf(-y * f, 0.0f) + log1pf(expf(-fabsf(f))) + 0.0f * f : 0.0f;
#endif
#pragma unroll
                    for (int j = 0; j < 4; j++) {
                        const float a = __shfl_sync(FULL, slope, 15 - (4 * j + t));
                        const float b = __shfl_sync(FULL, slope, 31 - (4 * j + t));
                        S[0][j] = halves(a, b);
                        float x, z;
                        floats(S[0][j], x, z);
                        S[1][j] = halves(a - x, b - z);
                    }
#if OUTPUT_BIAS
                    float sum = slope;
#pragma unroll
                    for (int w = 16; w; w >>= 1) sum += __shfl_xor_sync(FULL, sum, w);
                    dc += sum;
#endif
#endif
#pragma unroll
                    for (int j = 0; j < 4; j++) {
                        float x = 0.0f, z = 0.0f;
                        floats(S[0][j], x, z);
                        if (PARTS == 2) {
                            float xl, zl;
                            floats(S[PARTS - 1][j], xl, zl);
                            x += xl;
                            z += zl;
                        }
#pragma unroll
                        for (int m = 0; m < MT; m++)
#pragma unroll
                            for (int r = 0; r < 2; r++) {
                                const float z0 = Z[m][j][2 * r], z1 = Z[m][j][2 * r + 1];
                                du[m][r] += x * fmaxf(z0, 0.0f) + z * fmaxf(z1, 0.0f);
                                const u32 above = where_negative(0.0f - z0, 0.0f - z1);
#pragma unroll
                                for (int part = 0; part < PARTS; part++)
                                    G[group][part][m][j >> 1][(j & 1) * 2 + r] = S[part][j] & above;
                            }
                    }
                }
                float cw[MT][2], cb[MT][2];
                const float share = rate_factor / (TWO * BATCH);
#pragma unroll
                for (int m = 0; m < MT; m++)
#pragma unroll
                    for (int r = 0; r < 2; r++) {
                        du[m][r] += __shfl_xor_sync(FULL, du[m][r], 1);
                        du[m][r] += __shfl_xor_sync(FULL, du[m][r], 2);
                        cw[m][r] = rate[0] * share * (SCALE * SCALE) * u[m][r];
                        cb[m][r] = t == (BIAS_COLUMN >> 1) ? rate[1] * share * (SCALE * SCALE) * u[m][r] : cw[m][r];
                        const float kept = (1.0f - decay_factor * decay[2]) * u[m][r];
                        u[m][r] = kept + rate[2] * share * (1.0f / (SCALE * SCALE)) * du[m][r];
                    }
                if (OUTPUT_BIAS) {
                    const float kept = (1.0f - decay_factor * decay[3]) * c_;
                    c_ = kept + rate[3] * (rate_factor / BATCH) * dc;
                }
                const float keep_w = 1.0f - decay_factor * decay[0];
                const float keep_b = t == (BIAS_COLUMN >> 1) ? 1.0f - decay_factor * decay[1] : keep_w;
                if (decaying) update<true>(W, G, sh.inputs[s], cw, cb, keep_w, keep_b, g, t);
                else update<false>(W, G, sh.inputs[s], cw, cb, keep_w, keep_b, g, t);
            }
        }
        step += EVERY;

        // Is every number finite, and may the network be done?
        float squares = c_ * c_ + loss * 0.0f;
#pragma unroll
        for (int m = 0; m < MT; m++) {
            squares += u[m][0] * u[m][0] + u[m][1] * u[m][1];
#pragma unroll
            for (int c = 0; c < TILES; c++)
#pragma unroll
                for (int e = 0; e < 4; e++) squares += W[m][c][e] * W[m][c][e];
        }
        const bool lost = __syncthreads_or(!(squares < 3.0e38f));
        if (over_members(lost ? 1.0f : 0.0f, sh.of_members[turn ^= 1], lane, warp, rank) > 0.0f) {
            status = DIVERGED;
            break;
        }

        // Mistakes on the validation sample: a prefix excludes most networks that are not done; where the budget ends,
        // all of the sample is counted.
        const bool spent = step >= budget;
        const u32 v0 = gvalidation_key[2 * slot], v1 = gvalidation_key[2 * slot + 1];
        int mistakes = 0;
        bool passes = spent || (reached < 0 || EARLY);
#pragma unroll 1
        for (int phase = spent || PREFIX >= VALIDATION ? 1 : 0; phase < 2 && passes; phase++) {
            const int size = phase ? VALIDATION : PREFIX;
            const float most = phase ? gallowed[slot] : glikely[slot];
            mistakes = 0;
#pragma unroll 1
            for (int start = 0; start < size; start += 32) {
                const int member = start + lane;
                const int from = ((g & 1) ? 31 : 15) - (g >> 1);
                float Z[MT][4][4];
                set_to_zero(Z);
                u32 fold = 0;
#pragma unroll
                for (int w = 0; w < NW; w++) {
                    u32 own = 0;
                    if (w < NWR) {
#if LISTED
                        own = member < size ? (phase ? (u32)member : gplaces[member]) : 0u;
#else
                        own = random_word(v0, v1, member * NWR + w);
#endif
                        fold ^= own & mask[w];
                        if (w == NW - 1) own &= (1u << LAST) - 1;
                    }
                    const uint4 four = make_uint4(__shfl_sync(FULL, own, from), __shfl_sync(FULL, own, from - 4),
                                                  __shfl_sync(FULL, own, from - 8), __shfl_sync(FULL, own, from - 12));
                    forward(Z, W, w, four, ones, t);
                }
                const float f = output(Z, u, sh, turn ^= 1, lane, warp, rank) + c_;
                const float agreed = __popc(fold) & 1 ? -f : f;
                mistakes += __popc(__ballot_sync(FULL, member < size && !(agreed > 0.0f)));
                if (mistakes > most) {
                    passes = false;
                    if (!spent) break;
                }
            }
        }
        if (passes || spent) error = (float)mistakes / VALIDATION;
        streak = passes ? streak + 1 : 0;
        const bool done = streak >= gconsecutive[slot];
        if (done && reached < 0) reached = step;
        if (spent) status = reached >= 0 ? CONVERGED : FAILED;
        else if (done && EARLY) status = CONVERGED;
    }

    if (warp == 0 && rank == 0) {
#pragma unroll
        for (int w = 16; w; w >>= 1) loss += __shfl_xor_sync(FULL, loss, w);
        if (lane == 0) {
            gloss[slot] = loss / (BATCH * EVERY);
            gstep[slot] = step;
            gstatus[slot] = status;
            gstreak[slot] = streak;
            greached[slot] = reached;
            gerror[slot] = status == DIVERGED ? __uint_as_float(0x7FC00000u) : error;
            if (OUTPUT_BIAS) gc[slot] = c_;
        }
    }
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int neuron = ((rank * WARPS + warp) * MT + m) * 16 + r * 8 + g;
            if (neuron >= WIDTH) continue;
            if (t == 0) u0[neuron] = u[m][r] * SCALE;
#pragma unroll
            for (int c = 0; c < TILES; c++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const int i = input_at(c, 2 * t + h);
                    if (i < N) W0[neuron * N + i] = W[m][c][r * 2 + h] / SCALE;
                    if (i == N) b0[neuron] = W[m][c][r * 2 + h] / SCALE;
                }
        }
}
