// SPDX-License-Identifier: Apache-2.0
#include "cli/turn_compression.hpp"

#include "cli/durable_change.hpp"
#include "layout/documents.hpp"
#include "layout/input_file.hpp"
#include "layout/session_paths.hpp"
#include "layout/session_reader.hpp"
#include "layout/sha256.hpp"
#include "layout/turn_input.hpp"
#include "layout/zstd_stream.hpp"

#include <fcntl.h>
#include <sys/file.h>

#include <array>
#include <cstddef>
#include <optional>
#include <utility>

namespace relay::cli {

namespace {

using layout::Done;
using layout::Errc;
using layout::Error;
using layout::FileSeal;
using layout::InputDirectory;
using layout::InputFile;
using layout::Result;
using layout::Status;
using layout::TurnState;

constexpr std::int64_t worthwhile_bytes_min = 512;  // below, a file takes the same block either way
constexpr std::int64_t state_bytes_max = 64 << 20;
constexpr std::size_t piece_bytes = std::size_t{256} * 1024;

struct Part {
    std::string (*file)(std::int64_t turn);
    std::optional<FileSeal> (*seal)(const TurnState& state);
};

constexpr std::array parts{
    Part{
        layout::prompt_file,
        [](const TurnState& state) {
            return std::optional(state.prompt);
        }},
    Part{
        layout::output_file,
        [](const TurnState& state) {
            return std::optional(state.output);
        }},
    Part{
        layout::stderr_file,
        [](const TurnState& state) {
            return state.stderr_log;
        }},
    Part{
        layout::diff_file,
        [](const TurnState& state) {
            return state.diff;
        }},
};

bool fits(const layout::Sha256& hash, std::int64_t bytes, const FileSeal& seal) {
    return bytes == seal.bytes && hash.hex() == seal.sha256;
}

// Whether the compressed file gives back what was sealed.
Result<bool> gives_back(const std::string& path, const FileSeal& seal) {
    Result<InputFile> file = InputFile::open(AT_FDCWD, path);
    if (!file.ok()) {
        return file.error();
    }
    layout::ZstdReader reader([&file, &path](char* into, std::size_t size) -> Result<std::size_t> {
        const ssize_t got = file.value().read(into, size);
        return got < 0 ? Result<std::size_t>(layout::input_error(path, errno))
                       : Result<std::size_t>(static_cast<std::size_t>(got));
    });
    layout::Sha256 hash;
    std::int64_t bytes = 0;
    std::string piece(piece_bytes, '\0');
    for (;;) {
        const Result<std::size_t> got = reader.read(piece.data(), piece.size());
        if (!got.ok() && got.error().code == Errc::corrupt) {
            return false;
        }
        if (!got.ok()) {
            return got.error();
        }
        if (got.value() == 0) {
            return fits(hash, bytes, seal);
        }
        hash.update(std::string_view(piece).substr(0, got.value()));
        bytes += static_cast<std::int64_t>(got.value());
    }
}

enum class Outcome { compressed, not_worth_it, differs };

struct Shrunk {
    Outcome outcome = Outcome::not_worth_it;
    std::int64_t bytes = 0;
};

// Writes the compressed file; the recorded one is left alone.
Result<Shrunk> stage_and_publish(InputFile& file, const std::string& path, const FileSeal& seal) {
    Result<StagedFile> staged = StagedFile::create(layout::compressed_file(path));
    if (!staged.ok()) {
        return staged.error();
    }
    layout::ZstdWriter writer;
    layout::Sha256 hash;
    std::int64_t bytes = 0;
    Shrunk shrunk;
    std::string piece(piece_bytes, '\0');
    std::string compressed;
    for (bool ended = false; !ended;) {
        const ssize_t got = file.read(piece.data(), piece.size());
        if (got < 0) {
            return layout::input_error(path, errno);
        }
        const std::string_view read =
            std::string_view(piece).substr(0, static_cast<std::size_t>(got));
        ended = read.empty();
        hash.update(read);
        bytes += got;
        compressed.clear();
        if (ended) {
            writer.finish(compressed);
        } else {
            writer.add(read, compressed);
        }
        shrunk.bytes += std::ssize(compressed);
        if (Status written = staged.value().append(compressed); !written.ok()) {
            return written.error();
        }
    }
    if (!fits(hash, bytes, seal)) {
        shrunk.outcome = Outcome::differs;
    } else if (shrunk.bytes < bytes) {
        if (Status published = staged.value().publish(); !published.ok()) {
            return published.error();
        }
        shrunk.outcome = Outcome::compressed;
    }
    return shrunk;
}

Status compress_file(const std::string& path, const FileSeal& seal, Compression& done) {
    Result<InputFile> file = InputFile::open(AT_FDCWD, path);
    if (!file.ok()) {
        // Compressed already, or damaged, which verify tells.
        return file.error().code == Errc::io ? Status(file.error()) : Status(Done{});
    }
    if (file.value().bytes() < worthwhile_bytes_min) {
        return Done{};
    }
    const Result<Shrunk> shrunk = stage_and_publish(file.value(), path, seal);
    if (!shrunk.ok()) {
        return shrunk.error();
    }
    if (shrunk.value().outcome == Outcome::differs) {
        done.left.push_back(path);
    }
    if (shrunk.value().outcome != Outcome::compressed) {
        return Done{};
    }
    const std::string compressed = layout::compressed_file(path);
    const Result<bool> sound = gives_back(compressed, seal);
    if (!sound.ok()) {
        return sound.error();
    }
    if (!sound.value()) {
        static_cast<void>(remove_file(compressed));  // the other one counts as long as it is there
        return Error{
            Errc::corrupt, 0, compressed + " did not read back as " + path + ", which stays"};
    }
    if (Status removed = remove_file(path); !removed.ok()) {
        return removed;
    }
    ++done.files;
    done.bytes_before += seal.bytes;
    done.bytes_after += shrunk.value().bytes;
    return Done{};
}

// What a crash left of compressed files on their way to their names. With the lock held, so nobody is at them.
Status sweep(InputDirectory& turns, const std::string& path) {
    const Result<std::vector<InputDirectory::Entry>> entries = turns.entries();
    if (!entries.ok()) {
        return entries.error();
    }
    const std::string mark = std::string(layout::compressed_suffix) + ".";
    for (const InputDirectory::Entry& entry : entries.value()) {
        if (layout::is_temporary_name(entry.name) && entry.name.find(mark) != std::string::npos) {
            if (Status removed = remove_file(path + "/" + entry.name); !removed.ok()) {
                return removed;
            }
        }
    }
    return Done{};
}

Result<std::optional<TurnState>> read_seal(const std::string& directory, std::int64_t turn) {
    const std::string path = directory + "/" + layout::state_file(turn);
    const Result<std::string> text = layout::read_file(path, state_bytes_max);
    if (!text.ok()) {
        return text.error().code == Errc::not_found
                   ? Result<std::optional<TurnState>>(std::optional<TurnState>())
                   : text.error();
    }
    Result<TurnState> state = layout::decode_turn_state(text.value());
    if (!state.ok()) {
        return Error{state.error().code, 0, path + ": " + state.error().context};
    }
    return std::optional<TurnState>(std::move(state.value()));
}

}  // namespace

Result<Compression> compress_turns(const std::string& session_directory) {
    Compression done;
    const Result<layout::Meta> meta = layout::read_meta(session_directory);
    if (!meta.ok()) {
        return meta.error();
    }
    if (meta.value().status == layout::SessionStatus::active) {
        return Error{
            Errc::busy,
            0,
            "session " + meta.value().id.text() + " is running; nothing was compressed"};
    }
    const std::string path = session_directory + "/" + std::string(layout::turns_directory);
    Result<InputDirectory> turns =
        InputDirectory::open(AT_FDCWD, path, InputDirectory::Links::refuse);
    if (!turns.ok()) {
        return turns.error().code == Errc::not_found ? Result<Compression>(done) : turns.error();
    }
    // Held until the directory is closed.
    if (::flock(turns.value().descriptor(), LOCK_EX | LOCK_NB) != 0) {
        return Error{Errc::busy, errno, "somebody else is compressing " + session_directory};
    }
    if (const Status swept = sweep(turns.value(), path); !swept.ok()) {
        return swept.error();
    }
    const Result<std::vector<std::int64_t>> numbers = layout::list_turns(session_directory);
    if (!numbers.ok()) {
        return numbers.error();
    }
    for (const std::int64_t turn : numbers.value()) {
        const Result<std::optional<TurnState>> state = read_seal(session_directory, turn);
        if (!state.ok()) {
            return state.error();
        }
        for (const Part& part : parts) {
            const std::optional<FileSeal> seal =
                state.value() ? part.seal(*state.value()) : std::nullopt;
            if (!seal) {
                continue;
            }
            if (const Status compressed =
                    compress_file(session_directory + "/" + part.file(turn), *seal, done);
                !compressed.ok()) {
                return compressed.error();
            }
        }
    }
    return done;
}

std::int64_t compressible_bytes(const std::string& session_directory) {
    const Result<std::vector<std::int64_t>> turns = layout::list_turns(session_directory);
    std::int64_t bytes = 0;
    for (const std::int64_t turn : turns.ok() ? turns.value() : std::vector<std::int64_t>()) {
        for (const Part& part : parts) {
            const Result<InputFile> file =
                InputFile::open(AT_FDCWD, session_directory + "/" + part.file(turn));
            if (file.ok() && file.value().bytes() >= worthwhile_bytes_min) {
                bytes += file.value().bytes();
            }
        }
    }
    return bytes;
}

}  // namespace relay::cli
