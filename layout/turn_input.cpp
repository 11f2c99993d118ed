// SPDX-License-Identifier: Apache-2.0
#include "layout/turn_input.hpp"

#include "layout/session_paths.hpp"

#include <algorithm>
#include <utility>

namespace relay::layout {

namespace {

constexpr std::size_t piece_bytes = 65536;

}  // namespace

TurnInput::TurnInput(InputFile file, std::string name, bool compressed)
    : file_(std::make_shared<InputFile>(std::move(file))),
      name_(std::move(name)),
      compressed_(compressed) {
    if (compressed_) {
        rewind();
    }
}

Result<TurnInput> TurnInput::open(int directory, const std::string& name) {
    Result<InputFile> plain = InputFile::open(directory, name);
    if (plain.ok()) {
        return TurnInput(std::move(plain.value()), name, false);
    }
    if (plain.error().os_errno != ENOENT) {
        return plain.error();
    }
    Result<InputFile> compressed = InputFile::open(directory, compressed_file(name));
    if (compressed.ok()) {
        return TurnInput(std::move(compressed.value()), compressed_file(name), true);
    }
    // Nobody looks for the second name.
    return compressed.error().os_errno == ENOENT ? plain.error() : compressed.error();
}

void TurnInput::rewind() {
    position_ = 0;
    reader_ = std::make_unique<ZstdReader>(
        [file = file_, name = name_, offset = std::int64_t{0}](
            char* into, std::size_t size) mutable -> Result<std::size_t> {
            const ssize_t got = file->read_at(offset, into, size);
            if (got < 0) {
                return input_error(name, errno);
            }
            offset += got;
            return static_cast<std::size_t>(got);
        });
}

Result<std::size_t> TurnInput::read(char* into, std::size_t size) {
    Result<std::size_t> got = std::size_t{0};
    if (reader_) {
        got = reader_->read(into, size);
        if (!got.ok() && got.error().code == Errc::corrupt) {
            Error error = got.error();
            error.context.insert(0, name_ + ": ");
            return error;
        }
    } else {
        const ssize_t bytes = file_->read_at(position_, into, size);
        if (bytes < 0) {
            return input_error(name_, errno);
        }
        got = static_cast<std::size_t>(bytes);
    }
    if (got.ok()) {
        position_ += static_cast<std::int64_t>(got.value());
    }
    return got;
}

Result<std::size_t> TurnInput::read_at(std::int64_t offset, char* into, std::size_t size) {
    if (!reader_) {
        position_ = offset;
        return read(into, size);
    }
    if (offset < position_) {
        rewind();
    }
    std::string passed_over(piece_bytes, '\0');
    while (position_ < offset) {
        const auto ahead = static_cast<std::size_t>(offset - position_);
        Result<std::size_t> got = read(passed_over.data(), std::min(ahead, passed_over.size()));
        if (!got.ok() || got.value() == 0) {
            return got;
        }
    }
    return read(into, size);
}

Result<std::string> read_turn_file(const std::string& path, std::int64_t bytes_max) {
    Result<TurnInput> file = TurnInput::open(AT_FDCWD, path);
    if (!file.ok()) {
        return file.error();
    }
    std::string content;
    std::string piece(
        std::clamp<std::size_t>(
            static_cast<std::size_t>(file.value().bytes_on_disk()) + 1, 1, piece_bytes),
        '\0');
    for (;;) {
        const Result<std::size_t> got = file.value().read(piece.data(), piece.size());
        if (!got.ok()) {
            return got.error();
        }
        if (got.value() == 0) {
            return content;
        }
        content.append(piece, 0, got.value());
        if (static_cast<std::int64_t>(content.size()) > bytes_max) {
            return Error{
                .code = Errc::invalid,
                .os_errno = 0,
                .context = path + ": is larger than " + std::to_string(bytes_max) + " bytes"};
        }
    }
}

}  // namespace relay::layout
