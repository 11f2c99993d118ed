// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/planted_bug.hpp"

#include "layout/result.hpp"
#include "tests/sim/world.hpp"

#include <array>
#include <utility>
#include <vector>

namespace relay::tests {

using layout::Done;
using recorder::Directory;
using recorder::Durability;
using recorder::File;
using recorder::FileStat;
using recorder::OpenMode;
using recorder::Result;
using recorder::Status;

namespace {

// The first one is the canary: a simulation that does not find it finds nothing.
constexpr std::array bugs{
    PlantedBug{"ack before the journal is synced", Deed::sync, Part::segment, Wrong::left_out},
    PlantedBug{"a journal sync that comes one batch late", Deed::sync, Part::segment, Wrong::late},
    PlantedBug{"failure of a journal sync ignored", Deed::sync, Part::segment, Wrong::unheeded},
    PlantedBug{"failed journal sync tried again", Deed::sync, Part::segment, Wrong::tried_again},
    PlantedBug{"failure of a journal write ignored", Deed::write, Part::segment, Wrong::unheeded},
    PlantedBug{
        "tail applied before it is durable", Deed::sync, Part::segment, Wrong::left_out, true},
    PlantedBug{"tail synced and not rewritten", Deed::write, Part::segment, Wrong::left_out, true},
    PlantedBug{
        "no sync of the journal's directory", Deed::sync_directory, Part::segment, Wrong::left_out},
    PlantedBug{"checkpoint not synced", Deed::sync, Part::slot, Wrong::left_out},
    PlantedBug{"failure of a checkpoint's sync ignored", Deed::sync, Part::slot, Wrong::unheeded},
    PlantedBug{"failure of a checkpoint's write ignored", Deed::write, Part::slot, Wrong::unheeded},
    PlantedBug{
        "one checkpoint slot instead of two", Deed::open, Part::slot, Wrong::left_out, false, true},
    PlantedBug{"spill not synced", Deed::sync, Part::spill, Wrong::left_out},
    PlantedBug{"spill's directory not synced", Deed::sync_directory, Part::spill, Wrong::left_out},
    PlantedBug{"failure of a spill's sync ignored", Deed::sync, Part::spill, Wrong::unheeded},
    PlantedBug{"needless spill not removed", Deed::remove, Part::spill, Wrong::left_out},
    PlantedBug{
        "document renamed before it is synced", Deed::sync, Part::temporary, Wrong::left_out},
    PlantedBug{
        "failure of a document's sync ignored", Deed::sync, Part::temporary, Wrong::unheeded},
    PlantedBug{
        "failed sync of a document tried again", Deed::sync, Part::temporary, Wrong::tried_again},
    PlantedBug{
        "failure of a document's write ignored", Deed::write, Part::temporary, Wrong::unheeded},
    PlantedBug{"document written in place", Deed::rename, Part::any_session, Wrong::in_place},
    PlantedBug{"output not synced before its seal", Deed::sync, Part::growing, Wrong::left_out},
    PlantedBug{"failure of an output's write ignored", Deed::write, Part::growing, Wrong::unheeded},
    PlantedBug{"replay by size", Deed::write, Part::growing, Wrong::at_the_end},
    PlantedBug{
        "checkpoint before the disk is synced",
        Deed::sync_disk,
        Part::any_session,
        Wrong::left_out},
    PlantedBug{
        "failure of a disk's sync ignored", Deed::sync_disk, Part::any_session, Wrong::unheeded},
    PlantedBug{
        "failed sync of a disk tried again",
        Deed::sync_disk,
        Part::any_session,
        Wrong::tried_again},
    PlantedBug{"old handoff packet not removed", Deed::remove, Part::other, Wrong::left_out},
};

std::string_view last_of(std::string_view path) {
    return path.substr(path.rfind('/') + 1);
}

Part part_of(std::string_view path) {
    const std::string_view name = last_of(path);
    if (path.starts_with(journal_mount)) {
        return name.starts_with("checkpoint.")              ? Part::slot
               : path.starts_with(journal_mount + "/spill") ? Part::spill
                                                            : Part::segment;
    }
    if (name.starts_with('.') && name.ends_with(".tmp")) {
        return Part::temporary;
    }
    const bool grows =
        name.ends_with("-output.md") || name.ends_with("-stderr.log") || name == "events.jsonl";
    return grows ? Part::growing : Part::other;
}

}  // namespace

std::span<const PlantedBug> planted_bugs() {
    return bugs;
}

class BuggyFile final : public File {
public:
    BuggyFile(const BuggyDisk& disk, std::string path, std::unique_ptr<File> sound)
        : disk_(disk), path_(std::move(path)), sound_(std::move(sound)) {}

    Result<std::size_t> read(std::int64_t offset, char* into, std::size_t size) override {
        return sound_->read(offset, into, size);
    }
    Status write(std::int64_t offset, std::string_view bytes) override {
        if (!disk_.strikes(Deed::write, path_)) {
            return sound_->write(offset, bytes);
        }
        if (disk_.bug_.wrong == Wrong::left_out) {
            return Done{};
        }
        if (disk_.bug_.wrong == Wrong::at_the_end) {
            const auto stat = sound_->stat();
            return stat.ok() ? sound_->write(stat.value().size, bytes) : Status(stat.error());
        }
        static_cast<void>(sound_->write(offset, bytes).ok());
        return Done{};
    }
    Status sync() override {
        if (!disk_.strikes(Deed::sync, path_)) {
            return sound_->sync();
        }
        const Wrong wrong = disk_.bug_.wrong;
        if (wrong == Wrong::left_out || (wrong == Wrong::late && (owes_a_sync_ = !owes_a_sync_))) {
            return Done{};
        }
        Status first = sound_->sync();
        if (wrong == Wrong::tried_again && !first.ok()) {
            return sound_->sync();
        }
        return wrong == Wrong::unheeded ? Status(Done{}) : std::move(first);
    }
    void start_writeback() override { sound_->start_writeback(); }
    Status truncate(std::int64_t size) override { return sound_->truncate(size); }
    Result<FileStat> stat() override { return sound_->stat(); }

private:
    const BuggyDisk& disk_;
    const std::string path_;
    std::unique_ptr<File> sound_;
    bool owes_a_sync_ = false;
};

class BuggyDirectory final : public Directory {
public:
    BuggyDirectory(const BuggyDisk& disk, std::string path, std::unique_ptr<Directory> sound)
        : disk_(disk), path_(std::move(path)), sound_(std::move(sound)) {}

    Result<std::unique_ptr<File>> open_file(std::string_view name, OpenMode mode) override {
        const bool other_slot = disk_.bug_.one_slot && name == "checkpoint.1";
        auto opened = sound_->open_file(other_slot ? "checkpoint.0" : name, mode);
        if (!opened.ok()) {
            return opened;
        }
        return std::unique_ptr<File>(
            std::make_unique<BuggyFile>(disk_, below(name), std::move(opened.value())));
    }
    Result<std::unique_ptr<Directory>> open_directory(std::string_view name) override {
        auto opened = sound_->open_directory(name);
        if (!opened.ok()) {
            return opened;
        }
        return std::unique_ptr<Directory>(
            std::make_unique<BuggyDirectory>(disk_, below(name), std::move(opened.value())));
    }
    Status make_directory(std::string_view name) override { return sound_->make_directory(name); }
    Status rename(std::string_view from, std::string_view to) override {
        if (!disk_.strikes(Deed::rename, below(to)) || !sound_->stat(to).ok()) {
            return sound_->rename(from, to);
        }
        return copy_over(from, to);
    }
    Status rename_new(std::string_view from, std::string_view to) override {
        return sound_->rename_new(from, to);
    }
    Status remove(std::string_view name) override {
        return disk_.strikes(Deed::remove, below(name)) ? Status(Done{}) : sound_->remove(name);
    }
    Status make_symbolic_link(std::string_view target, std::string_view name) override {
        return sound_->make_symbolic_link(target, name);
    }
    Result<FileStat> stat(std::string_view name) override { return sound_->stat(name); }
    Result<FileStat> stat() override { return sound_->stat(); }
    Result<bool> deleted() override { return sound_->deleted(); }
    Result<std::vector<std::string>> list() override { return sound_->list(); }
    Status sync() override {
        return disk_.strikes(Deed::sync_directory, path_) ? Status(Done{}) : sound_->sync();
    }
    Status sync_file_system() override {
        if (!disk_.strikes(Deed::sync_disk, path_)) {
            return sound_->sync_file_system();
        }
        if (disk_.bug_.wrong == Wrong::left_out) {
            return Done{};
        }
        Status first = sound_->sync_file_system();
        if (disk_.bug_.wrong == Wrong::tried_again && !first.ok()) {
            return sound_->sync_file_system();
        }
        return Done{};
    }
    Result<std::string> path() override { return sound_->path(); }
    Result<Durability> durability() override { return sound_->durability(); }
    Status lock() override { return sound_->lock(); }
    void prefer_in_place_writes() override { sound_->prefer_in_place_writes(); }

private:
    [[nodiscard]] std::string below(std::string_view name) const {
        return path_ + "/" + std::string(name);
    }

    Status copy_over(std::string_view from, std::string_view to) {
        auto source = sound_->open_file(from, OpenMode::existing);
        auto target = sound_->open_file(to, OpenMode::existing);
        if (!source.ok() || !target.ok()) {
            return sound_->rename(from, to);
        }
        auto stat = source.value()->stat();
        if (!stat.ok()) {
            return stat.error();
        }
        std::string bytes(static_cast<std::size_t>(stat.value().size), '\0');
        if (auto read = source.value()->read(0, bytes.data(), bytes.size()); !read.ok()) {
            return read.error();
        }
        if (Status cut = target.value()->truncate(0); !cut.ok()) {
            return cut;
        }
        if (Status written = target.value()->write(0, bytes); !written.ok()) {
            return written;
        }
        return sound_->remove(from);
    }

    const BuggyDisk& disk_;
    const std::string path_;
    std::unique_ptr<Directory> sound_;
};

BuggyDisk::BuggyDisk(recorder::Disk& sound, const PlantedBug& bug, const bool& in_recovery)
    : sound_(sound), bug_(bug), in_recovery_(in_recovery) {
}

bool BuggyDisk::strikes(Deed deed, std::string_view path) const {
    if (deed != bug_.deed || (bug_.only_in_recovery && !in_recovery_)) {
        return false;
    }
    const Part part = part_of(path);
    const bool of_session = part == Part::temporary || part == Part::growing || part == Part::other;
    return part == bug_.part || (bug_.part == Part::any_session && of_session);
}

Result<std::unique_ptr<Directory>> BuggyDisk::open_directory(const std::string& path) {
    auto opened = sound_.open_directory(path);
    if (!opened.ok()) {
        return opened;
    }
    return std::unique_ptr<Directory>(
        std::make_unique<BuggyDirectory>(*this, path, std::move(opened.value())));
}

}  // namespace relay::tests
