// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "delivery/descriptor.hpp"
#include "delivery/pending_event.hpp"
#include "layout/result.hpp"

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace relay::delivery {

// Events of one session that the daemon has not acknowledged yet, on disk: <state>/spool/<session>.spool.
//
//     agent-relay spool 1 01M7J690Z2TM97TN46F1TWFTA9 00000000000000000012\n
//     <bytes of members> <bytes of the stream, or ->\n<members>\n<stream>\n
//     …
//
// The number in the first line is the seq of the first event; the others follow without a gap. A record that
// is not whole, because the writer was killed, ends the file for a reader.
//
// Whoever has one of these open holds its lock: the `run` that writes it, or the call that delivers it. A writer
// that cannot lock calls it <session>.<pid>.tmp as long as it lives. One thread at a time.
class SpoolFile {
public:
    // A new one, locked before it has its name. The directory is made if need be, 0700.
    [[nodiscard]] static layout::Result<SpoolFile>
    create(const std::string& directory, const std::string& session, std::int64_t first_seq);

    // One that its writer left. Errc::busy when somebody holds it, Errc::not_found when it is gone,
    // Errc::corrupt when it is no spool file.
    [[nodiscard]] static layout::Result<SpoolFile> open(const std::string& path);

    // The paths of all spool files, held or not, oldest session first; what a writer without locks left when it died gets its name
    // here. None when there is no such directory.
    [[nodiscard]] static std::vector<std::string> list(const std::string& directory);

    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] const std::string& session() const { return session_; }
    [[nodiscard]] std::int64_t first_seq() const { return first_seq_; }

    // Adds to the end. After a failure the file is as before, unless the disk refuses even that.
    [[nodiscard]] layout::Status append(const PendingEvent& event);
    // The same for bytes of a stream, without a copy.
    [[nodiscard]] layout::Status append_stream(std::string_view members, std::string_view bytes);

    // The record at `at`, which is moved behind it; nothing at the end. `at` begins as first_record().
    [[nodiscard]] layout::Result<std::optional<PendingEvent>> read(off_t& at) const;
    [[nodiscard]] static off_t first_record();

    // Forgets all records; the next one gets the number `first_seq`.
    [[nodiscard]] layout::Status clear(std::int64_t first_seq);

    // The same file with `inserted` before the record at `at`, and nothing of what was before that; the first
    // inserted event gets the number `first_seq`. Takes the old one's place at once and whole.
    [[nodiscard]] layout::Status
    put_before(off_t at, std::int64_t first_seq, const std::vector<PendingEvent>& inserted);

    // Survives a loss of power.
    [[nodiscard]] layout::Status sync() const;

    void remove();

private:
    SpoolFile(Descriptor descriptor, std::string path, std::string session, std::int64_t first_seq)
        : descriptor_(std::move(descriptor)),
          path_(std::move(path)),
          session_(std::move(session)),
          first_seq_(first_seq) {}

    [[nodiscard]] layout::Status append_record(std::string head, std::string_view bytes);

    Descriptor descriptor_;
    std::string path_;
    std::string session_;
    std::int64_t first_seq_;
    off_t end_ = 0;
};

}  // namespace relay::delivery
