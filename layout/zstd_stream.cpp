// SPDX-License-Identifier: Apache-2.0
#include "layout/zstd_stream.hpp"

#include <zstd.h>

#include <new>
#include <utility>

namespace relay::layout {

namespace {

// Text of agents shrinks to a quarter at 3 and little further beyond 9, which still takes 50 MB a second.
constexpr int level = 9;

struct FreeReader {
    void operator()(ZSTD_DStream* stream) const { ZSTD_freeDStream(stream); }
};
struct FreeWriter {
    void operator()(ZSTD_CStream* stream) const { ZSTD_freeCStream(stream); }
};

// The library fails here only for want of memory.
void insist(std::size_t answer) {
    if (ZSTD_isError(answer) != 0) {
        throw std::bad_alloc();
    }
}

Error corrupt(const std::string& why) {
    return {.code = Errc::corrupt, .os_errno = 0, .context = "cannot be decompressed: " + why};
}

}  // namespace

struct ZstdReader::State {
    Source source;
    std::unique_ptr<ZSTD_DStream, FreeReader> stream{ZSTD_createDStream()};
    std::string taken = std::string(ZSTD_DStreamInSize(), '\0');
    ZSTD_inBuffer input{taken.data(), 0, 0};
    bool within_frame = true;  // an empty file is no frame, and so is cut off
};

ZstdReader::ZstdReader(Source source) : state_(std::make_unique<State>()) {
    state_->source = std::move(source);
    if (!state_->stream) {
        throw std::bad_alloc();
    }
}
ZstdReader::ZstdReader(ZstdReader&&) noexcept = default;
ZstdReader::~ZstdReader() = default;

Result<std::size_t> ZstdReader::read(char* into, std::size_t size) {
    ZSTD_outBuffer output{into, size, 0};
    State& state = *state_;
    bool ended = false;
    while (output.pos < output.size && !ended) {
        if (state.input.pos == state.input.size) {
            const Result<std::size_t> got = state.source(state.taken.data(), state.taken.size());
            if (!got.ok()) {
                return got.error();
            }
            state.input = {state.taken.data(), got.value(), 0};
            ended = got.value() == 0;
        }
        // Once more at the end: the library may still hold bytes that did not fit before.
        const std::size_t before = output.pos;
        const std::size_t answer =
            ended && !state.within_frame
                ? 0
                : ZSTD_decompressStream(state.stream.get(), &output, &state.input);
        if (ZSTD_isError(answer) != 0) {
            return corrupt(ZSTD_getErrorName(answer));
        }
        if (!ended || output.pos > before) {
            state.within_frame = answer != 0;
        }
        ended = ended && output.pos == before;
    }
    if (ended && output.pos == 0 && state.within_frame) {
        return corrupt("it is cut off");
    }
    return output.pos;
}

struct ZstdWriter::State {
    std::unique_ptr<ZSTD_CStream, FreeWriter> stream{ZSTD_createCStream()};
    std::string made = std::string(ZSTD_CStreamOutSize(), '\0');

    // The number of bytes that the library still holds.
    std::size_t step(ZSTD_inBuffer& input, ZSTD_EndDirective how, std::string& out) {
        ZSTD_outBuffer output{made.data(), made.size(), 0};
        const std::size_t answer = ZSTD_compressStream2(stream.get(), &output, &input, how);
        insist(answer);
        out.append(made, 0, output.pos);
        return answer;
    }
};

ZstdWriter::ZstdWriter() : state_(std::make_unique<State>()) {
    if (!state_->stream) {
        throw std::bad_alloc();
    }
    insist(ZSTD_CCtx_setParameter(state_->stream.get(), ZSTD_c_compressionLevel, level));
    insist(ZSTD_CCtx_setParameter(state_->stream.get(), ZSTD_c_checksumFlag, 1));
}
ZstdWriter::ZstdWriter(ZstdWriter&&) noexcept = default;
ZstdWriter::~ZstdWriter() = default;

void ZstdWriter::add(std::string_view piece, std::string& out) {
    ZSTD_inBuffer input{piece.data(), piece.size(), 0};
    while (input.pos < input.size) {
        static_cast<void>(state_->step(input, ZSTD_e_continue, out));  // it may keep some
    }
}

void ZstdWriter::finish(std::string& out) {
    ZSTD_inBuffer nothing{nullptr, 0, 0};
    while (state_->step(nothing, ZSTD_e_end, out) > 0) {
    }
}

}  // namespace relay::layout
