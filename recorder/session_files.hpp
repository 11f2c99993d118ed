// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/checkpoint_record.hpp"
#include "layout/journal_change.hpp"
#include "layout/result.hpp"
#include "layout/ulid.hpp"
#include "recorder/disk.hpp"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace relay::recorder {

class Volume;

// Live: what we wrote last must still be there untouched. Replay: the files may be anything between
// the last checkpoint and what the journal says, and are brought to the latter.
enum class ApplyMode { live, replay };

// A file whose user version stays; ours goes on under recovered/.
struct FileConflict {
    std::string file;
    std::string kept;
};

// A disk that is not where it was when its sessions began.
[[nodiscard]] Error not_mounted(const std::string& place);

// The directory and open files of one session, and the effects that change them. Used by one thread at a
// time, the one whose turn it is in the volume, except `id` and `initial_claim`.
//
// Errors: Errc::gone when the user deleted the session's directory; Errc::no_space, Errc::io and the
// like when the disk refuses, and then the effect may be half done and is simply applied again later:
// every effect is idempotent. What the user changed under our hands is no error: it becomes a conflict.
class SessionFiles {
public:
    SessionFiles(Disk& disk, const layout::Ulid& session, layout::Claim claim);

    const layout::Ulid id;
    const layout::Claim initial_claim;
    Volume* volume = nullptr;  // the one that adopted it; set once, before anything is submitted
    bool announced =
        false;  // io thread: the journal or the checkpoint knows where the session lives

    // What the last checkpoint knows of this session; replay checks the files against it.
    void expect(const layout::SessionMark& mark);

    // A session that stays where it is takes the owner alone: the checkpoint may know a newer place than
    // the claim, because a moved repository is followed. What has to be made is made on this device, or on
    // any (0).
    [[nodiscard]] Status apply_claim(const layout::Claim& claim, std::uint64_t device = 0);
    [[nodiscard]] Status
    append(std::string_view name, std::int64_t offset, std::string_view data, ApplyMode mode);

    // In replay: when the document holds these bytes already, they are written over themselves, because an
    // earlier sync of them may have failed, and the file is returned, to be synced. Null when it does not.
    [[nodiscard]] Result<std::unique_ptr<File>>
    affirm(std::string_view name, std::string_view data);

    // Replacing is two steps, so that several documents can be synced together in between.
    [[nodiscard]] Result<std::unique_ptr<File>> stage(std::string_view name, std::string_view data);
    [[nodiscard]] Status publish(std::string_view name, File& staged, ApplyMode mode);
    // Published without a sync: it stays open until a settle effect syncs it.
    void keep_to_settle(std::string_view name, std::unique_ptr<File> published);

    [[nodiscard]] Status remove(std::string_view name);
    [[nodiscard]] Status link_latest();

    // The growing file, or the finished one, opened anew if it is not open: what a settle effect syncs. Null
    // when the file is not there (any more).
    [[nodiscard]] Result<File*> file_to_settle(std::string_view name);
    void close_settled();  // after the sync

    // Whether these bytes would continue the file, or lie within it: no hole would come to be.
    [[nodiscard]] Result<bool> reaches(std::string_view name, std::int64_t offset);

    // Checks that directory and open files are still what their names stand for, moves aside what is
    // not, and notes lengths and checksums for the checkpoint. Errc::gone when the directory is.
    [[nodiscard]] Result<layout::SessionMark> mark();

    // After replay: files that the checkpoint knows and the journal did not touch are looked at too. One
    // that was changed while no daemon ran stays as it is, and ours goes on under recovered/.
    [[nodiscard]] Status check_marked_files();

    // If they were made anew: those that lie there now are ours.
    void take_new_files();

    // Forgets all handles. Whatever is not synced must still be in the journal or the spill.
    void close();
    // Syncs the open files, then close().
    [[nodiscard]] Status sync_and_close();
    [[nodiscard]] bool is_open() const { return directory_ != nullptr; }

    [[nodiscard]] Status remove_temporaries();
    [[nodiscard]] Result<Directory*> directory();
    [[nodiscard]] const layout::Claim& claim() const { return claim_; }

    // Conflicts met since the last call.
    [[nodiscard]] std::vector<FileConflict> take_conflicts();

    // Of the last change that journal and checkpoint know of. The files alone may say less, because the
    // timeline and meta.json follow lazily.
    std::atomic<std::int64_t> client_seq = 0;
    std::atomic<std::int64_t> event_seq = 0;
    std::uint64_t marked_lsn = 0;  // the checkpoint vouches for changes up to here
    std::uint64_t last_used = 0;   // for the choice whom to close first
    bool sealing = false;          // a change of it waits for a sync: the sealer has it

    // Read by other threads too.
    std::atomic<std::uint64_t> applied_lsn = 0;
    std::atomic<bool> finished = false;  // the last change settled was the session's last for now
    std::atomic<bool> gone = false;      // for ever
    // Set by io: the session was at rest, and its files were made anew by `agent-relay scrub`. What is held of the
    // old ones is let go before the next change.
    std::atomic<bool> made_anew = false;

private:
    struct Growing {
        std::string name;
        std::string actual;  // the same, or its place under recovered/
        std::unique_ptr<File> file;
        FileStat identity;
        std::int64_t length = 0;
    };

    [[nodiscard]] Status open_directory();
    [[nodiscard]] Status make_directories(const layout::Claim& claim, std::uint64_t device);
    [[nodiscard]] Status write_gitignore(Directory& store);
    [[nodiscard]] Status still_there();
    [[nodiscard]] std::optional<Status>
    append_to_known(std::string_view name, std::int64_t offset, std::string_view data);
    [[nodiscard]] Result<Growing*>
    growing(std::string_view name, std::int64_t offset, ApplyMode mode);
    [[nodiscard]] Result<std::unique_ptr<File>>
    open_growing(std::string_view name, std::int64_t offset, ApplyMode mode, std::string& actual);
    [[nodiscard]] Result<bool> fits_mark(std::string_view name, File& file, const FileStat& stat);
    [[nodiscard]] Status move_aside(Growing& growing, std::int64_t known_bytes);
    [[nodiscard]] Status make_parent(std::string_view name);
    [[nodiscard]] Result<bool> has_recovered();
    [[nodiscard]] Result<bool> is_aside(const std::string& aside);
    [[nodiscard]] Status publish_aside(std::string_view name);
    [[nodiscard]] Result<bool> is_as_left(std::string_view name);
    [[nodiscard]] Result<std::unique_ptr<File>> create_temporary(std::string_view name);
    void note_conflict(std::string_view file, std::string_view kept);

    Disk& disk_;
    layout::Claim claim_;
    std::unique_ptr<Directory> directory_;
    std::optional<bool> has_recovered_;  // whether anything was ever moved aside, once known
    std::vector<Growing> growing_;
    struct Published {
        std::string name;
        std::unique_ptr<File> file;
    };
    std::vector<Published> published_;             // open to be synced later
    std::vector<std::unique_ptr<File>> settling_;  // opened only to be synced
    std::vector<std::string> settled_names_;
    std::map<std::string, FileStat, std::less<>>
        replaced_;  // meta.json, resume.json as we left them
    std::vector<layout::FileMark> expected_;
    std::vector<FileConflict> conflicts_;
};

}  // namespace relay::recorder
