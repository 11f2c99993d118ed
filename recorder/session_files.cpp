// SPDX-License-Identifier: Apache-2.0
#include "recorder/session_files.hpp"

#include "layout/crc32c.hpp"
#include "layout/session_paths.hpp"

#include <algorithm>
#include <utility>

namespace relay::recorder {

using layout::Done;
using layout::FileMark;
using layout::SessionMark;

namespace {

constexpr std::string_view gitignore_text = "*\n!config.toml\n";
constexpr std::size_t copy_piece_bytes = std::size_t{64} * 1024;

// meta.json and resume.json change over a session's life; every other replaced file is written once.
bool is_rewritten(std::string_view name) {
    return name == layout::meta_file || name == layout::resume_file;
}

bool same_content_as_left(const FileStat& now, const FileStat& left) {
    return now.same_file(left) && now.size == left.size && now.modified_ns == left.modified_ns;
}

// Only what the caller can react to by moving our version aside.
bool is_in_the_way(const Error& error) {
    return error.code == Errc::exists || error.code == Errc::unsafe;
}

Result<std::uint32_t> tail_crc(File& file, std::int64_t length) {
    const std::int64_t size = std::min(length, layout::file_mark_tail_bytes);
    std::string bytes(static_cast<std::size_t>(size), '\0');
    auto count = file.read(length - size, bytes.data(), bytes.size());
    if (!count.ok()) {
        return count.error();
    }
    bytes.resize(count.value());
    return layout::crc32c(bytes);
}

Status copy_bytes(File& source, File& target, std::int64_t size) {
    std::string piece(copy_piece_bytes, '\0');
    for (std::int64_t offset = 0; offset < size;) {
        const auto wanted = static_cast<std::size_t>(
            std::min<std::int64_t>(static_cast<std::int64_t>(piece.size()), size - offset));
        auto count = source.read(offset, piece.data(), wanted);
        if (!count.ok()) {
            return count.error();
        }
        if (count.value() == 0) {
            break;
        }
        if (Status written = target.write(offset, std::string_view(piece).substr(0, count.value()));
            !written.ok()) {
            return written;
        }
        offset += static_cast<std::int64_t>(count.value());
    }
    return Done{};
}

// Makes each component of `path` below `here` that is missing and opens the last one. On this device, or
// on any (0): while a disk is not mounted there may be a directory of another one in its place.
Result<std::unique_ptr<Directory>> make_path(
    std::unique_ptr<Directory> here,
    std::string_view path,
    const std::string& place,
    std::uint64_t device) {
    while (!path.empty()) {
        const std::size_t slash = path.find('/');
        const std::string_view name = path.substr(0, slash);
        path.remove_prefix(slash == std::string_view::npos ? path.size() : slash + 1);
        auto next = here->open_directory(name);
        if (!next.ok() && next.error().code == Errc::not_found) {
            auto stat = here->stat();
            if (!stat.ok()) {
                return stat.error();
            }
            if (device != 0 && stat.value().device != device) {
                return not_mounted(place);
            }
            if (Status made = here->make_directory(name);
                !made.ok() && made.error().code != Errc::exists) {
                return made.error();
            }
            next = here->open_directory(name);
        }
        if (!next.ok()) {
            return next.error();
        }
        here = std::move(next.value());
    }
    return here;
}

// What stands under a temporary name of the store is the leftover of a crash: it was never anything but
// ours. False when somebody put a directory there, which stays.
Result<bool> clear_temporary(Directory& store, std::string_view temporary) {
    Status removed = store.remove(temporary);
    if (removed.ok() || removed.error().code == Errc::not_found) {
        return true;
    }
    if (removed.error().code == Errc::unsafe) {
        return false;
    }
    return removed.error();
}

Status remove_temporaries_in(Directory& directory) {
    auto names = directory.list();
    if (!names.ok()) {
        return names.error();
    }
    for (const std::string& name : names.value()) {
        if (layout::is_temporary_name(name)) {
            if (Status removed = directory.remove(name); !removed.ok()) {
                return removed;
            }
        }
    }
    return Done{};
}

}  // namespace

Error not_mounted(const std::string& place) {
    return Error{Errc::io, 0, "the file system at " + place + " is not mounted"};
}

SessionFiles::SessionFiles(Disk& disk, const layout::Ulid& session, layout::Claim claim)
    : id(session), initial_claim(std::move(claim)), disk_(disk), claim_(initial_claim) {
}

void SessionFiles::expect(const SessionMark& mark) {
    expected_ = mark.files;
    client_seq = mark.client_seq;
    event_seq = mark.event_seq;
    applied_lsn = mark.synced_lsn;
    marked_lsn = mark.synced_lsn;
    announced = true;
}

Status SessionFiles::apply_claim(const layout::Claim& claim, std::uint64_t device) {
    if (claim.create && !directory_) {
        claim_ = claim;
        return make_directories(claim, device);
    }
    if (Status opened = open_directory(); !opened.ok()) {
        claim_ = claim;
        return open_directory();
    }
    claim_.owner = claim.owner;
    return Done{};
}

Status SessionFiles::make_directories(const layout::Claim& claim, std::uint64_t device) {
    auto anchor = disk_.open_directory(claim.anchor);
    if (!anchor.ok()) {
        return anchor.error();
    }
    auto store = make_path(std::move(anchor.value()), claim.below, claim.anchor, device);
    if (!store.ok()) {
        return store.error();
    }
    if (claim.is_repo) {
        if (Status ignored = write_gitignore(*store.value()); !ignored.ok()) {
            return ignored;
        }
    }
    const std::string path = "sessions/" + id.text();
    auto session = make_path(std::move(store.value()), path, claim.anchor, device);
    if (!session.ok()) {
        return session.error();
    }
    if (Status turns = session.value()->make_directory(layout::turns_directory);
        !turns.ok() && turns.error().code != Errc::exists) {
        return turns;
    }
    directory_ = std::move(session.value());
    return Done{};
}

// Once, and never again: the user may have put something else there.
Status SessionFiles::write_gitignore(Directory& store) {
    constexpr std::string_view name = ".gitignore";
    if (auto present = store.stat(name); present.ok() || present.error().code != Errc::not_found) {
        return present.ok() ? Status(Done{}) : Status(present.error());
    }
    const std::string temporary = layout::temporary_file(name);
    if (auto cleared = clear_temporary(store, temporary); !cleared.ok() || !cleared.value()) {
        return cleared.ok() ? Status(Done{}) : Status(cleared.error());
    }
    auto file = store.open_file(temporary, OpenMode::create_exclusive);
    if (!file.ok()) {
        return file.error();
    }
    if (Status written = file.value()->write(0, gitignore_text); !written.ok()) {
        return written;
    }
    if (Status synced = file.value()->sync(); !synced.ok()) {
        return synced;
    }
    return store.rename(temporary, name);
}

Status SessionFiles::open_directory() {
    if (directory_) {
        return Done{};
    }
    if (gone) {
        return Error{Errc::gone, 0, "session " + id.text() + " was deleted"};
    }
    auto anchor = disk_.open_directory(claim_.anchor);
    if (!anchor.ok()) {
        return anchor.error();
    }
    auto opened = anchor.value()->open_directory(claim_.below + "/sessions/" + id.text());
    if (!opened.ok()) {
        return opened.error();
    }
    directory_ = std::move(opened.value());
    return Done{};
}

Result<Directory*> SessionFiles::directory() {
    if (Status opened = open_directory(); !opened.ok()) {
        return opened.error();
    }
    return directory_.get();
}

Status SessionFiles::still_there() {
    if (Status opened = open_directory(); !opened.ok()) {
        return opened;
    }
    auto deleted = directory_->deleted();
    if (!deleted.ok()) {
        return deleted.error();
    }
    if (deleted.value()) {
        gone = true;
        return Error{Errc::gone, 0, "the directory of session " + id.text() + " was deleted"};
    }
    return Done{};
}

void SessionFiles::note_conflict(std::string_view file, std::string_view kept) {
    conflicts_.push_back({std::string(file), std::string(kept)});
}

std::vector<FileConflict> SessionFiles::take_conflicts() {
    return std::exchange(conflicts_, {});
}

// Asked of the disk once while the session is open: nobody but us makes it.
Result<bool> SessionFiles::has_recovered() {
    if (!has_recovered_) {
        auto stat = directory_->stat(layout::recovered_directory);
        if (!stat.ok() && stat.error().code != Errc::not_found) {
            return stat.error();
        }
        has_recovered_ = stat.ok();
    }
    return *has_recovered_;
}

Result<bool> SessionFiles::is_aside(const std::string& aside) {
    auto any = has_recovered();
    if (!any.ok() || !any.value()) {
        return any;
    }
    auto stat = directory_->stat(aside);
    if (!stat.ok() && stat.error().code != Errc::not_found) {
        return stat.error();
    }
    return stat.ok();
}

Status SessionFiles::make_parent(std::string_view name) {
    has_recovered_.reset();
    const std::size_t slash = name.rfind('/');
    if (slash == std::string_view::npos) {
        return Done{};
    }
    Status made = directory_->make_directory(name.substr(0, slash));
    if (!made.ok() && made.error().code == Errc::exists) {
        return Done{};
    }
    return made;
}

Result<bool> SessionFiles::fits_mark(std::string_view name, File& file, const FileStat& stat) {
    const auto mark =
        std::find_if(expected_.begin(), expected_.end(), [name](const FileMark& known) {
            return known.name == name;
        });
    if (mark == expected_.end()) {
        return true;
    }
    if (stat.inode != mark->inode || stat.size < mark->length) {
        return false;
    }
    auto crc = tail_crc(file, mark->length);
    if (!crc.ok()) {
        return crc.error();
    }
    return crc.value() == mark->tail_crc;
}

// Opens the file that the growing `name` continues in. Sets `actual` to its place under recovered/
// when the user's own version stands under the plain name.
Result<std::unique_ptr<File>> SessionFiles::open_growing(
    std::string_view name, std::int64_t offset, ApplyMode mode, std::string& actual) {
    const std::string aside = layout::recovered_file(name);
    actual = aside;
    auto any_aside = has_recovered();
    if (!any_aside.ok()) {
        return any_aside.error();
    }
    if (any_aside.value()) {
        if (auto moved = directory_->open_file(aside, OpenMode::existing);
            moved.ok() || moved.error().code != Errc::not_found) {
            return moved;
        }
    }
    // An empty file that is there already is the one a turn began with, before we let go of its handle.
    const bool may_begin = mode == ApplyMode::replay || offset == 0;
    const OpenMode how = may_begin ? OpenMode::create : OpenMode::existing;
    auto file = directory_->open_file(name, how);
    if (!file.ok() && file.error().code == Errc::not_found && how != OpenMode::existing) {
        if (Status made = make_parent(name); !made.ok()) {
            return made.error();
        }
        file = directory_->open_file(name, how);
    }
    if (file.ok()) {
        auto stat = file.value()->stat();
        if (!stat.ok()) {
            return stat.error();
        }
        const Result<bool> ours = mode == ApplyMode::replay
                                      ? fits_mark(name, *file.value(), stat.value())
                                      : Result<bool>(stat.value().size == offset);
        if (!ours.ok()) {
            return ours.error();
        }
        if (ours.value()) {
            actual = name;
            return file;
        }
    } else if (!is_in_the_way(file.error()) && file.error().code != Errc::not_found) {
        return file;
    }
    if (Status made = make_parent(aside); !made.ok()) {
        return made.error();
    }
    note_conflict(name, aside);
    return directory_->open_file(aside, OpenMode::create);
}

Result<SessionFiles::Growing*>
SessionFiles::growing(std::string_view name, std::int64_t offset, ApplyMode mode) {
    for (Growing& known : growing_) {
        if (known.name == name) {
            return &known;
        }
    }
    Growing fresh;
    fresh.name = name;
    auto file = open_growing(name, offset, mode, fresh.actual);
    if (!file.ok()) {
        return file.error();
    }
    auto stat = file.value()->stat();
    if (!stat.ok()) {
        return stat.error();
    }
    fresh.file = std::move(file.value());
    fresh.identity = stat.value();
    fresh.length = mode == ApplyMode::replay ? stat.value().size : offset;
    growing_.push_back(std::move(fresh));
    return &growing_.back();
}

// The file under the name is no longer ours to write. What of it is still ours, the first
// `known_bytes`, is copied; offsets stay the same, so what is lost is a hole.
Status SessionFiles::move_aside(Growing& growing, std::int64_t known_bytes) {
    const std::string aside = layout::recovered_file(growing.name);
    if (Status made = make_parent(aside); !made.ok()) {
        return made;
    }
    auto file = directory_->open_file(aside, OpenMode::create);
    if (!file.ok()) {
        return file.error();
    }
    if (Status copied = copy_bytes(*growing.file, *file.value(), known_bytes); !copied.ok()) {
        return copied;
    }
    auto stat = file.value()->stat();
    if (!stat.ok()) {
        return stat.error();
    }
    note_conflict(growing.name, aside);
    growing.actual = aside;
    growing.file = std::move(file.value());
    growing.identity = stat.value();
    return Done{};
}

// The way of nearly every chunk: the file is open and as we left it. One that is still linked lies in a
// directory that is, too, unless it was moved out of it, which mark() finds. None: look more closely.
std::optional<Status>
SessionFiles::append_to_known(std::string_view name, std::int64_t offset, std::string_view data) {
    const auto known = std::find_if(growing_.begin(), growing_.end(), [name](const Growing& file) {
        return file.name == name;
    });
    if (known == growing_.end() || !directory_) {
        return std::nullopt;
    }
    auto stat = known->file->stat();
    if (!stat.ok() || stat.value().links == 0 || stat.value().size != offset) {
        return std::nullopt;
    }
    if (data.empty()) {
        return Done{};
    }
    Status written = known->file->write(offset, data);
    if (written.ok()) {
        known->length = std::max(known->length, offset + static_cast<std::int64_t>(data.size()));
    }
    return written;
}

Status SessionFiles::append(
    std::string_view name, std::int64_t offset, std::string_view data, ApplyMode mode) {
    if (mode == ApplyMode::live) {
        if (auto appended = append_to_known(name, offset, data)) {
            return *appended;
        }
    }
    if (Status there = still_there(); !there.ok()) {
        return there;
    }
    auto found = growing(name, offset, mode);
    if (!found.ok()) {
        return found.error();
    }
    Growing& file = *found.value();
    if (mode == ApplyMode::live) {
        auto stat = file.file->stat();
        if (!stat.ok()) {
            return stat.error();
        }
        const bool deleted = stat.value().links == 0;
        const bool untouched = stat.value().size == offset || file.actual != file.name;
        if (deleted || !untouched) {
            // A deleted file still holds all of ours; a longer one begins with it; a shorter one does not.
            const bool whole = stat.value().size >= offset;
            if (Status moved = move_aside(file, whole ? offset : 0); !moved.ok()) {
                return moved;
            }
        }
    }
    if (data.empty()) {
        return Done{};
    }
    if (Status written = file.file->write(offset, data); !written.ok()) {
        return written;
    }
    file.length = std::max(file.length, offset + static_cast<std::int64_t>(data.size()));
    return Done{};
}

Result<std::unique_ptr<File>> SessionFiles::create_temporary(std::string_view name) {
    const std::string temporary = layout::temporary_file(name);
    auto file = directory_->open_file(temporary, OpenMode::create_exclusive);
    if (!file.ok() && is_in_the_way(file.error())) {
        if (Status removed = directory_->remove(temporary); !removed.ok()) {
            return removed.error();
        }
        file = directory_->open_file(temporary, OpenMode::create_exclusive);
    }
    return file;
}

Result<std::unique_ptr<File>> SessionFiles::affirm(std::string_view name, std::string_view data) {
    if (Status there = still_there(); !there.ok()) {
        return there.error();
    }
    // A conflict of earlier sends it elsewhere; whatever else is in the way is publish()'s affair.
    auto moved = directory_->stat(layout::recovered_file(name));
    auto file = directory_->open_file(name, OpenMode::existing);
    if (moved.ok() || !file.ok()) {
        return std::unique_ptr<File>();
    }
    auto stat = file.value()->stat();
    if (!stat.ok() || stat.value().size != static_cast<std::int64_t>(data.size())) {
        return std::unique_ptr<File>();
    }
    std::string present(data.size(), '\0');
    auto count = file.value()->read(0, present.data(), present.size());
    if (!count.ok() || count.value() != data.size() || present != data) {
        return std::unique_ptr<File>();
    }
    if (Status written = file.value()->write(0, data); !written.ok()) {
        return written.error();
    }
    if (is_rewritten(name)) {
        stat = file.value()->stat();
        if (!stat.ok()) {
            return stat.error();
        }
        replaced_[std::string(name)] = stat.value();
    }
    return file;
}

Result<std::unique_ptr<File>> SessionFiles::stage(std::string_view name, std::string_view data) {
    if (Status there = still_there(); !there.ok()) {
        return there.error();
    }
    auto file = create_temporary(name);
    if (!file.ok() && file.error().code == Errc::not_found) {
        if (Status made = make_parent(name); !made.ok()) {
            return made.error();
        }
        file = create_temporary(name);
    }
    if (!file.ok()) {
        return file;
    }
    if (Status written = file.value()->write(0, data); !written.ok()) {
        // The half-written file must not stay; should this fail too, recovery removes it.
        static_cast<void>(directory_->remove(layout::temporary_file(name)));
        return written.error();
    }
    return file;
}

// meta.json and resume.json, which a user may have changed since we put them there.
Result<bool> SessionFiles::is_as_left(std::string_view name) {
    auto present = directory_->stat(name);
    if (!present.ok() && present.error().code != Errc::not_found) {
        return present.error();
    }
    const auto left = replaced_.find(name);
    const bool known = left != replaced_.end();
    return present.ok() ? !known || same_content_as_left(present.value(), left->second) : !known;
}

Status SessionFiles::publish_aside(std::string_view name) {
    const std::string aside = layout::recovered_file(name);
    if (Status made = make_parent(aside); !made.ok()) {
        return made;
    }
    note_conflict(name, aside);
    return directory_->rename(layout::temporary_file(name), aside);
}

Status SessionFiles::publish(std::string_view name, File& staged, ApplyMode mode) {
    const std::string temporary = layout::temporary_file(name);
    const std::string aside = layout::recovered_file(name);
    auto moved = is_aside(aside);
    if (!moved.ok()) {
        return moved.error();
    }
    if (moved.value()) {  // a conflict of earlier, perhaps of an earlier process
        return directory_->rename(temporary, aside);
    }
    if (mode == ApplyMode::live && !is_rewritten(name)) {
        Status renamed = directory_->rename_new(temporary, name);
        return !renamed.ok() && renamed.error().code == Errc::exists ? publish_aside(name)
                                                                     : renamed;
    }
    if (mode == ApplyMode::live) {
        auto as_left = is_as_left(name);
        if (!as_left.ok()) {
            return as_left.error();
        }
        if (!as_left.value()) {
            return publish_aside(name);
        }
    }
    auto stat = is_rewritten(name) ? staged.stat() : Result<FileStat>(FileStat{});
    if (!stat.ok()) {
        return stat.error();
    }
    if (Status renamed = directory_->rename(temporary, name); !renamed.ok()) {
        return renamed;
    }
    if (is_rewritten(name)) {
        replaced_[std::string(name)] = stat.value();
    }
    return Done{};
}

void SessionFiles::keep_to_settle(std::string_view name, std::unique_ptr<File> published) {
    published_.push_back({std::string(name), std::move(published)});
}

Status SessionFiles::remove(std::string_view name) {
    if (Status there = still_there(); !there.ok()) {
        return there;
    }
    const auto left = replaced_.find(name);
    if (left != replaced_.end()) {
        auto present = directory_->stat(name);
        if (present.ok() && !same_content_as_left(present.value(), left->second)) {
            note_conflict(name, name);  // the user's own version stays
            replaced_.erase(left);
            return Done{};
        }
        replaced_.erase(left);
    }
    Status removed = directory_->remove(name);
    if (!removed.ok() && removed.error().code == Errc::not_found) {
        return Done{};
    }
    return removed;
}

Status SessionFiles::link_latest() {
    constexpr std::string_view name = "latest";
    auto anchor = disk_.open_directory(claim_.anchor);
    if (!anchor.ok()) {
        return anchor.error();
    }
    auto store = anchor.value()->open_directory(claim_.below);
    if (!store.ok()) {
        return store.error();
    }
    auto present = store.value()->stat(name);
    if (!present.ok() && present.error().code != Errc::not_found) {
        return present.error();
    }
    if (present.ok() && present.value().kind != FileKind::symbolic_link) {
        return Done{};  // something of the user's: leave it
    }
    const std::string temporary = layout::temporary_file(name);
    if (auto cleared = clear_temporary(*store.value(), temporary);
        !cleared.ok() || !cleared.value()) {
        return cleared.ok() ? Status(Done{}) : Status(cleared.error());
    }
    if (Status linked = store.value()->make_symbolic_link("sessions/" + id.text(), temporary);
        !linked.ok()) {
        return linked;
    }
    return store.value()->rename(temporary, name);
}

Result<File*> SessionFiles::file_to_settle(std::string_view name) {
    if (Status there = still_there(); !there.ok()) {
        return there.error();
    }
    for (Growing& known : growing_) {
        if (known.name == name) {
            settled_names_.emplace_back(name);
            return known.file.get();
        }
    }
    for (Published& known : published_) {
        if (known.name == name) {
            settled_names_.emplace_back(name);
            return known.file.get();
        }
    }
    auto file = directory_->open_file(name, OpenMode::existing);
    if (!file.ok()) {
        if (file.error().code == Errc::not_found || file.error().code == Errc::unsafe) {
            return nullptr;
        }
        return file.error();
    }
    settling_.push_back(std::move(file.value()));
    return settling_.back().get();
}

void SessionFiles::close_settled() {
    settling_.clear();
    const auto is_settled = [this](const auto& known) {
        return std::find(settled_names_.begin(), settled_names_.end(), known.name)
               != settled_names_.end();
    };
    std::erase_if(growing_, is_settled);
    std::erase_if(published_, is_settled);
    settled_names_.clear();
}

Result<bool> SessionFiles::reaches(std::string_view name, std::int64_t offset) {
    if (Status there = still_there(); !there.ok()) {
        return there.error();
    }
    std::int64_t length = 0;
    for (const std::string& place : {layout::recovered_file(name), std::string(name)}) {
        if (auto stat = directory_->stat(place); stat.ok()) {
            length = std::max(length, stat.value().size);
        } else if (stat.error().code != Errc::not_found) {
            return stat.error();
        }
    }
    return offset <= length;
}

Result<SessionMark> SessionFiles::mark() {
    SessionMark mark;
    mark.session = id;
    mark.synced_lsn = applied_lsn;
    mark.client_seq = client_seq;
    mark.event_seq = event_seq;
    if (Status there = still_there(); !there.ok()) {
        return there.error();
    }
    auto path = directory_->path();
    if (!path.ok()) {
        return path.error();
    }
    const std::string tail = "/" + claim_.below + "/sessions/" + id.text();
    if (!path.value().ends_with(tail)) {
        return Error{Errc::gone, 0, "session " + id.text() + " was moved to " + path.value()};
    }
    auto stat = directory_->stat();
    if (!stat.ok()) {
        return stat.error();
    }
    mark.device = stat.value().device;
    // The repository may have been moved: the descriptor follows, and so does our memory of the place. Or
    // its disk was unmounted: then nothing is found there.
    std::string anchor = path.value().substr(0, path.value().size() - tail.size());
    if (anchor != claim_.anchor) {
        auto found = disk_.open_directory(path.value());
        auto named = found.ok() ? found.value()->stat() : Result<FileStat>(found.error());
        if (!named.ok() || !named.value().same_file(stat.value())) {
            return Error{
                Errc::gone, 0, "session " + id.text() + " is not reached by any path any more"};
        }
        claim_.anchor = std::move(anchor);
    }
    mark.claim = claim_;
    mark.claim.create = false;
    for (Growing& file : growing_) {
        auto named = directory_->stat(file.actual);
        if (!named.ok() && named.error().code != Errc::not_found) {
            return named.error();
        }
        const bool same = named.ok() && named.value().same_file(file.identity);
        if (!same && file.actual == file.name) {
            if (Status moved = move_aside(file, file.length); !moved.ok()) {
                return moved.error();
            }
        }
        auto crc = tail_crc(*file.file, file.length);
        if (!crc.ok()) {
            return crc.error();
        }
        if (file.actual == file.name) {
            mark.files.push_back({file.name, file.length, file.identity.inode, crc.value()});
        }
    }
    return mark;
}

Status SessionFiles::check_marked_files() {
    if (Status there = still_there(); !there.ok()) {
        return there;
    }
    for (const FileMark& mark : expected_) {
        const std::string aside = layout::recovered_file(mark.name);
        auto moved = directory_->stat(aside);
        if (moved.ok()) {
            continue;
        }
        if (moved.error().code != Errc::not_found) {
            return moved.error();
        }
        auto file = directory_->open_file(mark.name, OpenMode::existing);
        if (file.ok()) {
            auto stat = file.value()->stat();
            if (!stat.ok()) {
                return stat.error();
            }
            auto fits = fits_mark(mark.name, *file.value(), stat.value());
            if (!fits.ok()) {
                return fits.error();
            }
            if (fits.value()) {
                continue;
            }
        } else if (!is_in_the_way(file.error()) && file.error().code != Errc::not_found) {
            return file.error();
        }
        if (Status made = make_parent(aside); !made.ok()) {
            return made;
        }
        auto ours = directory_->open_file(aside, OpenMode::create_exclusive);
        if (!ours.ok()) {
            return ours.error();
        }
        // The bytes are lost with the user's edit; their number is not, and offsets stay true.
        if (Status grown = ours.value()->truncate(mark.length); !grown.ok()) {
            return grown;
        }
        note_conflict(mark.name, aside);
    }
    return Done{};
}

void SessionFiles::take_new_files() {
    if (made_anew.exchange(false)) {
        close();
        replaced_.clear();
        expected_.clear();
    }
}

void SessionFiles::close() {
    settling_.clear();
    settled_names_.clear();
    growing_.clear();
    published_.clear();
    directory_.reset();
    has_recovered_.reset();
}

Status SessionFiles::sync_and_close() {
    for (Growing& file : growing_) {
        if (Status synced = file.file->sync(); !synced.ok()) {
            return synced;
        }
    }
    for (const Published& known : published_) {
        if (Status synced = known.file->sync(); !synced.ok()) {
            return synced;
        }
    }
    close();
    return Done{};
}

Status SessionFiles::remove_temporaries() {
    if (Status opened = open_directory(); !opened.ok()) {
        return opened;
    }
    if (Status removed = remove_temporaries_in(*directory_); !removed.ok()) {
        return removed;
    }
    for (const std::string_view name : {layout::turns_directory, layout::attachments_directory}) {
        auto below = directory_->open_directory(name);
        if (!below.ok()) {
            continue;  // not every session has one
        }
        if (Status removed = remove_temporaries_in(*below.value()); !removed.ok()) {
            return removed;
        }
    }
    return Done{};
}

}  // namespace relay::recorder
