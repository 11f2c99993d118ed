// SPDX-License-Identifier: Apache-2.0
#include "tests/support/model_disk.hpp"

#include "tests/support/model_disk_parts.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <utility>

namespace relay::tests {

using layout::Done;
using recorder::Durability;
using recorder::Errc;
using recorder::Error;
using recorder::FileKind;
using recorder::FileStat;
using recorder::OpenMode;
using recorder::Result;
using recorder::Status;

namespace {

Errc code_of(int number) {
    switch (number) {
    case ENOSPC:
    case EDQUOT:
        return Errc::no_space;
    case ENOENT:
    case ENOTDIR:
        return Errc::not_found;
    case EEXIST:
        return Errc::exists;
    case EISDIR:
    case ELOOP:
    case EXDEV:
        return Errc::unsafe;
    default:
        return Errc::io;
    }
}

std::string context_of(std::string_view verb, std::string_view object, std::string_view reason) {
    std::string context;
    context.reserve(verb.size() + object.size() + reason.size() + 3);
    context.append(verb).append(" ").append(object).append(": ").append(reason);
    return context;
}

// The C library looks for a translation each time.
std::string_view words_for(int number) {
    thread_local std::map<int, std::string> words;
    std::string& known = words[number];
    if (known.empty()) {
        std::array<char, 128> buffer{};
        known = ::strerror_r(number, buffer.data(), buffer.size());
    }
    return known;
}

Error refused(std::string_view verb, std::string_view object, int number) {
    return Error{code_of(number), number, context_of(verb, object, words_for(number))};
}

bool plain_name(std::string_view name) {
    while (true) {
        const std::size_t slash = name.find('/');
        const std::string_view component = name.substr(0, slash);
        if (component.empty() || component == "." || component == ".."
            || component.find('\0') != std::string_view::npos) {
            return false;
        }
        if (slash == std::string_view::npos) {
            return true;
        }
        name.remove_prefix(slash + 1);
    }
}

// The first component, which is taken off `path`.
std::string_view take_component(std::string_view& path) {
    const std::size_t slash = path.find('/');
    const std::string_view component = path.substr(0, slash);
    path.remove_prefix(slash == std::string_view::npos ? path.size() : slash + 1);
    return component;
}

}  // namespace

namespace {

template<typename Entries>
auto position_of(Entries& entries, std::string_view name) {
    return std::lower_bound(
        entries.begin(), entries.end(), name, [](const auto& entry, std::string_view wanted) {
            return std::string_view(entry.name) < wanted;
        });
}

template<typename Entries>
auto* find_in(Entries& entries, std::string_view name) {
    const auto at = position_of(entries, name);
    return at != entries.end() && at->name == name ? at->inode.get() : nullptr;
}

// The inode that had the name before, if any.
template<typename Entries, typename Ref>
Ref put_in(Entries& entries, std::string_view name, Ref inode) {
    const auto at = position_of(entries, name);
    if (at != entries.end() && at->name == name) {
        at->inode.swap(inode);
        return inode;
    }
    entries.insert(at, {std::string(name), std::move(inode)});
    return nullptr;
}

template<typename Entries>
auto take_from(Entries& entries, std::string_view name) {
    const auto at = position_of(entries, name);
    assert(at != entries.end() && at->name == name);
    auto inode = std::move(at->inode);
    entries.erase(at);
    return inode;
}

template<typename AnInode>
std::optional<std::string> shown(const AnInode& inode, const std::string& content) {
    if (inode.kind == FileKind::directory) {
        return std::nullopt;
    }
    return inode.kind == FileKind::symbolic_link ? "-> " + content : content;
}

}  // namespace

struct ModelDisk::Verdict {
    int os_errno = 0;  // 0: go on
    bool power_is_off = false;
    std::int64_t short_write_bytes = -1;

    [[nodiscard]] bool refuses() const { return os_errno != 0; }
    [[nodiscard]] Error error(std::string_view verb, std::string_view object) const {
        if (power_is_off) {
            return Error{Errc::io, EIO, context_of(verb, object, "the power is off")};
        }
        return refused(verb, object, os_errno);
    }
};

// nullptr when a component is absent or not a directory.
ModelDisk::Inode*
ModelDisk::FileSystem::find(std::string_view path, Inode::Entries Inode::*entries) const {
    path.remove_prefix(std::min(path.size(), mount_point.size() + 1));
    Inode* inode = root.get();
    while (inode != nullptr && !path.empty()) {
        const std::string_view component = take_component(path);
        inode = component.empty() ? inode : find_in(inode->*entries, component);
    }
    return inode;
}

// The directory above the last component, made with all that is missing on the way.
std::pair<ModelDisk::Inode*, std::string_view>
ModelDisk::FileSystem::place_for_user(std::string_view path, std::uint64_t& next_inode) {
    path.remove_prefix(mount_point.size() + 1);
    Inode* directory = root.get();
    while (true) {
        const std::string_view component = take_component(path);
        if (path.empty()) {
            return {directory, component};
        }
        Inode* found = find_in(directory->entries, component);
        if (found == nullptr) {
            const Ref made(new Inode(*this, next_inode++, FileKind::directory));
            attach(*directory, component, made);
            put_in(directory->durable_entries, component, made);
            found = made.get();
        }
        assert(found->kind == FileKind::directory);
        directory = found;
    }
}

void ModelDisk::FileSystem::mark_dirty(Inode& inode) {
    if (inode.dirty_slot == none) {
        inode.dirty_slot = dirty.size();
        dirty.emplace_back(&inode);
    }
}

void ModelDisk::FileSystem::unmark_dirty(Inode& inode) {
    if (inode.dirty_slot == none) {
        return;
    }
    const std::size_t slot = std::exchange(inode.dirty_slot, none);
    if (slot + 1 != dirty.size()) {
        dirty[slot].swap(dirty.back());
        dirty[slot]->dirty_slot = slot;
    }
    dirty.pop_back();
}

void ModelDisk::FileSystem::attach(Inode& directory, std::string_view name, const Ref& inode) {
    const Ref replaced = put_in(directory.entries, name, inode);
    if (replaced != nullptr) {
        detach(*replaced);
    }
    inode->links = 1;
    inode->parent = &directory;
    settle_charge(*inode);
}

void ModelDisk::FileSystem::detach(Inode& inode) {
    inode.links = 0;
    inode.parent = nullptr;
    settle_charge(inode);
}

void ModelDisk::FileSystem::settle_charge(Inode& inode) {
    const bool charge = inode.links > 0 || inode.handles > 0;
    if (inode.kind == FileKind::regular && charge != (inode.charged_in == charge_epoch)) {
        const auto size = static_cast<std::int64_t>(inode.seen.size());
        used += charge ? size : -size;
        inode.charged_in = charge ? charge_epoch : 0;
    }
}

void ModelDisk::FileSystem::commit_names(std::size_t count) {
    for (std::size_t index = 0; index < count; ++index) {
        NameChange& change = log[index];
        if (change.from != nullptr) {
            take_from(change.from->durable_entries, change.from_name);
        }
        if (change.to != nullptr) {
            put_in(change.to->durable_entries, change.to_name, change.inode);
        }
    }
    log.erase(log.begin(), log.begin() + static_cast<std::ptrdiff_t>(count));
}

void ModelDisk::FileSystem::lose_names(Random& random) {
    const std::uint64_t draw = random.below(4);
    std::size_t survivors = random.below(log.size() + 1);
    if (draw < 2) {
        survivors = draw == 0 ? 0 : log.size();
    }
    commit_names(survivors);
    // Two passes: an inode that leaves one directory may come back in another.
    const auto every_directory = [this](auto visit) {
        for (const NameChange& change : log) {
            for (Inode* const directory : {change.from.get(), change.to.get()}) {
                if (directory != nullptr) {
                    visit(*directory);
                }
            }
        }
    };
    every_directory([](Inode& directory) {
        for (const Inode::Entry& entry : directory.entries) {
            entry.inode->links = 0;
            entry.inode->parent = nullptr;
        }
    });
    every_directory([](Inode& directory) {
        directory.entries = directory.durable_entries;
        for (const Inode::Entry& entry : directory.entries) {
            entry.inode->links = 1;
            entry.inode->parent = &directory;
        }
    });
    log.clear();
}

void ModelDisk::FileSystem::lose_power(Random& random) {
    lose_names(random);
    for (const Ref& inode : dirty) {
        inode->lose_power(random);
        inode->dirty_slot = none;
    }
    dirty.clear();
    recount();
}

// What nobody can see any more costs nothing, even while a dead handle keeps it in memory.
void ModelDisk::FileSystem::recount() {
    used = 0;
    ++charge_epoch;
    std::vector<Inode*> directories{root.get()};
    while (!directories.empty()) {
        Inode* const directory = directories.back();
        directories.pop_back();
        for (const Inode::Entry& entry : directory->entries) {
            if (entry.inode->kind == FileKind::directory) {
                directories.push_back(entry.inode.get());
            } else {
                settle_charge(*entry.inode);
            }
        }
    }
}

// What files and directories have in common: an inode kept open, and the epoch it was opened in.
class ModelDisk::Handle {
public:
    Handle(ModelDisk& disk, Inode::Ref inode, std::string_view name)
        : disk_(disk),
          inode_(std::move(inode)),
          name_(name),
          epoch_(disk.epoch_),
          reported_errors_(writeback_errors()) {
        ++disk_.open_handles_;
        ++inode_->handles;
    }
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;
    ~Handle() {
        --disk_.open_handles_;
        --inode_->handles;
        home().settle_charge(*inode_);
        if (inode_->locked_by == this) {
            inode_->locked_by = nullptr;
        }
    }

    // Each handle hears once of a failed write-back, if it was open by then: of its file, or for a
    // directory of any file of the file system.
    bool hears_of_writeback_error() {
        return std::exchange(reported_errors_, writeback_errors()) != writeback_errors();
    }

    Verdict admit(Op op) { return disk_.admit(op, home(), epoch_); }

    // As admit(), for an operation that changes something.
    Verdict admit_change(Op op) {
        Verdict verdict = admit(op);
        if (!verdict.refuses() && home().read_only) {
            verdict.os_errno = EROFS;
        }
        return verdict;
    }

    [[nodiscard]] FileSystem& home() const { return inode_->home; }
    [[nodiscard]] Inode& inode() const { return *inode_; }
    [[nodiscard]] const std::string& name() const { return name_; }
    [[nodiscard]] ModelDisk& disk() const { return disk_; }
    void touch(Inode& inode) { inode.modified_ns = ++disk_.clock_ns_; }

    [[nodiscard]] FileStat stat_of(const Inode& inode) const {
        FileStat stat;
        stat.kind = inode.kind;
        stat.device = home().device;
        stat.inode = inode.number;
        stat.links = inode.links;
        stat.owner = disk_.owner_;
        stat.size = static_cast<std::int64_t>(inode.seen.size());
        stat.modified_ns = inode.modified_ns;
        return stat;
    }

    Status lock() {
        if (const Verdict verdict = admit(Op::stat); verdict.refuses()) {
            return verdict.error("lock", name_);
        }
        const bool held = inode_->locked_by != nullptr && inode_->lock_epoch == epoch_;
        if (held && inode_->locked_by != this) {
            Error error = refused("lock", name_, EWOULDBLOCK);
            error.code = Errc::busy;
            return error;
        }
        inode_->locked_by = this;
        inode_->lock_epoch = epoch_;
        return Done{};
    }

private:
    [[nodiscard]] std::uint64_t writeback_errors() const {
        const bool directory = inode_->kind == FileKind::directory;
        return directory ? home().writeback_errors : inode_->writeback_errors;
    }

    ModelDisk& disk_;
    Inode::Ref inode_;
    std::string name_;
    std::uint64_t epoch_;
    std::uint64_t reported_errors_;
};

class ModelDisk::OpenFile final : public recorder::File {
public:
    OpenFile(ModelDisk& disk, Inode::Ref inode, std::string_view name)
        : handle_(disk, std::move(inode), name) {}

    Result<std::size_t> read(std::int64_t offset, char* into, std::size_t size) override {
        if (const Verdict verdict = handle_.admit(Op::read); verdict.refuses()) {
            return verdict.error("read", handle_.name());
        }
        if (offset < 0) {
            return refused("read", handle_.name(), EINVAL);
        }
        const std::string& seen = handle_.inode().seen;
        const auto start = static_cast<std::size_t>(offset);
        if (start >= seen.size()) {
            return std::size_t{0};
        }
        const std::size_t count = std::min(size, seen.size() - start);
        return seen.copy(into, count, start);
    }

    Status write(std::int64_t offset, std::string_view bytes) override {
        Verdict verdict = handle_.admit_change(Op::write);
        if (!verdict.refuses() && offset < 0) {
            verdict.os_errno = EINVAL;
        }
        if (!verdict.refuses()) {
            verdict = fit(static_cast<std::size_t>(offset), bytes);
        }
        if (verdict.refuses() && verdict.short_write_bytes <= 0) {
            return verdict.error("write", handle_.name());
        }
        if (verdict.refuses()) {
            bytes = bytes.substr(0, static_cast<std::size_t>(verdict.short_write_bytes));
        }
        handle_.inode().put(static_cast<std::size_t>(offset), bytes);
        handle_.touch(handle_.inode());
        if (verdict.refuses()) {
            return verdict.error("write", handle_.name());
        }
        return Done{};
    }

    Status sync() override {
        if (const Verdict verdict = handle_.admit(Op::sync); verdict.refuses()) {
            if (!verdict.power_is_off) {
                handle_.inode().fail_writeback();
                static_cast<void>(handle_.hears_of_writeback_error());
            }
            return verdict.error("sync", handle_.name());
        }
        handle_.inode().make_durable();
        if (handle_.hears_of_writeback_error()) {
            return refused("sync", handle_.name(), EIO);
        }
        return Done{};
    }

    void start_writeback() override {}

    Status truncate(std::int64_t size) override {
        Verdict verdict = handle_.admit_change(Op::truncate);
        if (!verdict.refuses() && size < 0) {
            verdict.os_errno = EINVAL;
        }
        if (verdict.refuses()) {
            return verdict.error("truncate", handle_.name());
        }
        handle_.inode().set_size(static_cast<std::size_t>(size));
        handle_.touch(handle_.inode());
        return Done{};
    }

    Result<FileStat> stat() override {
        if (const Verdict verdict = handle_.admit(Op::stat); verdict.refuses()) {
            return verdict.error("stat", handle_.name());
        }
        return handle_.stat_of(handle_.inode());
    }

private:
    [[nodiscard]] Verdict fit(std::size_t offset, std::string_view bytes) const {
        const FileSystem& home = handle_.home();
        const std::size_t size = handle_.inode().seen.size();
        const std::size_t end = offset + bytes.size();
        if (home.capacity == unlimited || end <= size) {
            return {};
        }
        const std::int64_t room = std::max<std::int64_t>(home.capacity - home.used, 0);
        const std::size_t end_max = size + static_cast<std::size_t>(room);
        if (end <= end_max) {
            return {};
        }
        const std::size_t fits = end_max > offset ? end_max - offset : 0;
        return {ENOSPC, false, static_cast<std::int64_t>(fits)};
    }

    Handle handle_;
};

class ModelDisk::OpenDirectory final : public recorder::Directory {
public:
    OpenDirectory(ModelDisk& disk, Inode::Ref inode, std::string_view name)
        : handle_(disk, std::move(inode), name) {}

    Result<std::unique_ptr<recorder::File>>
    open_file(std::string_view name, OpenMode mode) override;
    Result<std::unique_ptr<Directory>> open_directory(std::string_view name) override;
    Status make_directory(std::string_view name) override;
    Status rename(std::string_view from, std::string_view to) override {
        return move(from, to, /*replaces=*/true);
    }
    Status rename_new(std::string_view from, std::string_view to) override {
        return move(from, to, /*replaces=*/false);
    }
    Status remove(std::string_view name) override;
    Status make_symbolic_link(std::string_view target, std::string_view name) override;
    Result<FileStat> stat(std::string_view name) override;
    Result<FileStat> stat() override;
    Result<bool> deleted() override;
    Result<std::vector<std::string>> list() override;
    Status sync() override;
    Status sync_file_system() override;
    Result<std::string> path() override;
    Result<Durability> durability() override;
    Status lock() override { return handle_.lock(); }
    void prefer_in_place_writes() override {}

private:
    // Where a name leads: the directory of its last component, and what is there now, if anything.
    struct Place {
        int os_errno = 0;
        Inode* directory = nullptr;
        std::string_view last;
        Inode* found = nullptr;
    };

    [[nodiscard]] Place walk(std::string_view name) const;
    Status move(std::string_view from, std::string_view to, bool replaces);
    Result<Inode::Ref> make(FileKind kind, std::string_view verb, std::string_view name);
    void record(FileSystem::NameChange change);

    Handle handle_;
};

ModelDisk::OpenDirectory::Place ModelDisk::OpenDirectory::walk(std::string_view name) const {
    if (!plain_name(name)) {
        return {EXDEV, nullptr, {}, nullptr};
    }
    Inode* directory = &handle_.inode();
    while (true) {
        const std::string_view component = take_component(name);
        Inode* const found = find_in(directory->entries, component);
        if (name.empty()) {
            return {0, directory, component, found};
        }
        if (found == nullptr) {
            return {ENOENT, nullptr, {}, nullptr};
        }
        if (found->kind != FileKind::directory) {
            const bool link = found->kind == FileKind::symbolic_link;
            return {link ? ELOOP : ENOTDIR, nullptr, {}, nullptr};
        }
        directory = found;
    }
}

void ModelDisk::OpenDirectory::record(FileSystem::NameChange change) {
    for (const Inode::Ref& directory : {change.from, change.to}) {
        if (directory != nullptr) {
            handle_.touch(*directory);
        }
    }
    handle_.home().log.push_back(std::move(change));
}

Result<ModelDisk::Inode::Ref>
ModelDisk::OpenDirectory::make(FileKind kind, std::string_view verb, std::string_view name) {
    const Place place = walk(name);
    int number = place.os_errno;
    if (number == 0 && place.found != nullptr) {
        number = EEXIST;
    } else if (number == 0 && place.directory->links == 0) {
        number = ENOENT;
    }
    if (number != 0) {
        return refused(verb, name, number);
    }
    Inode::Ref made(new Inode(handle_.home(), handle_.disk().next_inode_++, kind));
    handle_.touch(*made);
    handle_.home().attach(*place.directory, place.last, made);
    record({nullptr, {}, place.directory, std::string(place.last), made});
    return made;
}

Result<std::unique_ptr<recorder::File>>
ModelDisk::OpenDirectory::open_file(std::string_view name, OpenMode mode) {
    if (const Verdict verdict = handle_.admit_change(Op::open); verdict.refuses()) {
        return verdict.error("open", name);
    }
    const auto opened = [&](Inode::Ref inode) {
        return std::unique_ptr<recorder::File>(
            std::make_unique<OpenFile>(handle_.disk(), std::move(inode), name));
    };
    const Place place = walk(name);
    const bool absent = place.os_errno == 0 && place.found == nullptr;
    if (mode == OpenMode::create_exclusive || (mode == OpenMode::create && absent)) {
        Result<Inode::Ref> made = make(FileKind::regular, "open", name);
        if (!made.ok()) {
            return made.error();
        }
        return opened(std::move(made.value()));
    }
    if (place.os_errno != 0 || absent) {
        return refused("open", name, absent ? ENOENT : place.os_errno);
    }
    if (place.found->kind != FileKind::regular) {
        return Error{Errc::unsafe, 0, context_of("open", name, "not a regular file")};
    }
    return opened(place.found);
}

Result<std::unique_ptr<recorder::Directory>>
ModelDisk::OpenDirectory::open_directory(std::string_view name) {
    if (const Verdict verdict = handle_.admit(Op::open); verdict.refuses()) {
        return verdict.error("open", name);
    }
    const Place place = walk(name);
    int number = place.os_errno;
    if (number == 0 && place.found == nullptr) {
        number = ENOENT;
    } else if (number == 0 && place.found->kind != FileKind::directory) {
        number = place.found->kind == FileKind::symbolic_link ? ELOOP : ENOTDIR;
    }
    if (number != 0) {
        return refused("open", name, number);
    }
    return std::unique_ptr<recorder::Directory>(
        std::make_unique<OpenDirectory>(handle_.disk(), place.found, name));
}

Status ModelDisk::OpenDirectory::make_directory(std::string_view name) {
    if (const Verdict verdict = handle_.admit_change(Op::make_directory); verdict.refuses()) {
        return verdict.error("mkdir", name);
    }
    const Result<Inode::Ref> made = make(FileKind::directory, "mkdir", name);
    if (!made.ok()) {
        return made.error();
    }
    return Done{};
}

Status
ModelDisk::OpenDirectory::make_symbolic_link(std::string_view target, std::string_view name) {
    if (const Verdict verdict = handle_.admit_change(Op::symbolic_link); verdict.refuses()) {
        return verdict.error("symlink", name);
    }
    const Result<Inode::Ref> made = make(FileKind::symbolic_link, "symlink", name);
    if (!made.ok()) {
        return made.error();
    }
    made.value()->seen = target;
    return Done{};
}

Status ModelDisk::OpenDirectory::move(std::string_view from, std::string_view to, bool replaces) {
    const auto answer = [&](int number) {
        return refused("rename", std::string(from).append(" -> ").append(to), number);
    };
    if (const Verdict verdict = handle_.admit_change(Op::rename); verdict.refuses()) {
        return verdict.error("rename", std::string(from).append(" -> ").append(to));
    }
    const Place source = walk(from);
    const Place target = walk(to);
    if (source.os_errno != 0 || target.os_errno != 0) {
        return answer(source.os_errno != 0 ? source.os_errno : target.os_errno);
    }
    if (source.found == nullptr || target.directory->links == 0) {
        return answer(ENOENT);
    }
    if (!replaces && target.found != nullptr) {
        return answer(EEXIST);
    }
    if (source.found == target.found) {
        return Done{};
    }
    if (source.found->contains(target.directory)) {
        return answer(EINVAL);
    }
    if (target.found != nullptr && target.found->contains(source.directory)) {
        return answer(ENOTEMPTY);
    }
    const bool moves_directory = source.found->kind == FileKind::directory;
    if (target.found != nullptr) {
        const bool onto_directory = target.found->kind == FileKind::directory;
        if (moves_directory != onto_directory) {
            return answer(onto_directory ? EISDIR : ENOTDIR);
        }
        if (onto_directory && !target.found->entries.empty()) {
            return answer(ENOTEMPTY);
        }
    }
    const Inode::Ref moved = take_from(source.directory->entries, source.last);
    handle_.home().attach(*target.directory, target.last, moved);
    record(
        {source.directory,
         std::string(source.last),
         target.directory,
         std::string(target.last),
         moved});
    return Done{};
}

Status ModelDisk::OpenDirectory::remove(std::string_view name) {
    if (const Verdict verdict = handle_.admit_change(Op::remove); verdict.refuses()) {
        return verdict.error("remove", name);
    }
    const Place place = walk(name);
    int number = place.os_errno;
    if (number == 0 && place.found == nullptr) {
        number = ENOENT;
    } else if (number == 0 && place.found->kind == FileKind::directory) {
        number = EISDIR;
    }
    if (number != 0) {
        return refused("remove", name, number);
    }
    const Inode::Ref removed = take_from(place.directory->entries, place.last);
    handle_.home().detach(*removed);
    record({place.directory, std::string(place.last), nullptr, {}, nullptr});
    return Done{};
}

Result<FileStat> ModelDisk::OpenDirectory::stat(std::string_view name) {
    if (const Verdict verdict = handle_.admit(Op::stat); verdict.refuses()) {
        return verdict.error("stat", name);
    }
    const Place place = walk(name);
    if (place.os_errno != 0 || place.found == nullptr) {
        return refused("stat", name, place.os_errno != 0 ? place.os_errno : ENOENT);
    }
    return handle_.stat_of(*place.found);
}

Result<FileStat> ModelDisk::OpenDirectory::stat() {
    if (const Verdict verdict = handle_.admit(Op::stat); verdict.refuses()) {
        return verdict.error("stat", handle_.name());
    }
    return handle_.stat_of(handle_.inode());
}

Result<bool> ModelDisk::OpenDirectory::deleted() {
    const Result<FileStat> found = stat();
    return found.ok() ? Result<bool>(found.value().links == 0) : found.error();
}

Result<std::vector<std::string>> ModelDisk::OpenDirectory::list() {
    if (const Verdict verdict = handle_.admit(Op::list); verdict.refuses()) {
        return verdict.error("list", handle_.name());
    }
    std::vector<std::string> names;
    names.reserve(handle_.inode().entries.size());
    for (const Inode::Entry& entry : handle_.inode().entries) {
        names.push_back(entry.name);
    }
    return names;
}

Status ModelDisk::OpenDirectory::sync() {
    if (const Verdict verdict = handle_.admit(Op::sync_directory); verdict.refuses()) {
        return verdict.error("sync", handle_.name());
    }
    const std::vector<FileSystem::NameChange>& log = handle_.home().log;
    std::size_t count = log.size();
    while (count > 0 && log[count - 1].from != &handle_.inode()
           && log[count - 1].to != &handle_.inode()) {
        --count;
    }
    handle_.home().commit_names(count);
    return Done{};
}

Status ModelDisk::OpenDirectory::sync_file_system() {
    FileSystem& home = handle_.home();
    const Verdict verdict = handle_.admit(Op::sync_file_system);
    if (verdict.power_is_off) {
        return verdict.error("sync the file system of", handle_.name());
    }
    // From the end, because a file that becomes clean leaves the list.
    for (std::size_t index = home.dirty.size(); index > 0; --index) {
        const Inode::Ref inode = home.dirty[index - 1];
        if (verdict.refuses()) {
            inode->fail_writeback();
        } else {
            inode->make_durable();
        }
    }
    if (verdict.refuses()) {
        static_cast<void>(handle_.hears_of_writeback_error());
        return verdict.error("sync the file system of", handle_.name());
    }
    home.commit_names(home.log.size());
    if (handle_.hears_of_writeback_error()) {
        return refused("sync the file system of", handle_.name(), EIO);
    }
    return Done{};
}

Result<std::string> ModelDisk::OpenDirectory::path() {
    if (const Verdict verdict = handle_.admit(Op::stat); verdict.refuses()) {
        return verdict.error("find the path of", handle_.name());
    }
    std::string path;
    const Inode* inode = &handle_.inode();
    while (inode->parent != nullptr) {
        for (const Inode::Entry& entry : inode->parent->entries) {
            if (entry.inode.get() == inode) {
                path.insert(0, "/" + entry.name);
                break;
            }
        }
        inode = inode->parent;
    }
    if (inode->links == 0) {
        return Error{
            Errc::gone, 0, context_of("find the path of", handle_.name(), "it was deleted")};
    }
    // On a disk that is no longer mounted paths begin at its own root.
    return handle_.home().mounted ? handle_.home().mount_point + path : path;
}

Result<Durability> ModelDisk::OpenDirectory::durability() {
    if (const Verdict verdict = handle_.admit(Op::stat); verdict.refuses()) {
        return verdict.error("statfs", handle_.name());
    }
    return Durability::synced;
}

ModelDisk::ModelDisk(const std::vector<std::string>& mount_points, std::uint64_t seed)
    : random_(seed), owner_(::geteuid()) {
    for (const std::string& mount_point : mount_points) {
        assert(mount_point.size() > 1 && mount_point.front() == '/' && mount_point.back() != '/');
        add_file_system(mount_point);
    }
}

ModelDisk::~ModelDisk() {
    assert(open_handles_ == 0);
}

ModelDisk::FileSystem* ModelDisk::file_system_of(std::string_view path) const {
    for (const std::unique_ptr<FileSystem>& file_system : file_systems_) {
        if (file_system->shows(path)) {
            return file_system.get();
        }
    }
    return nullptr;
}

// The other disk beneath a mount point comes after the one that is mounted there.
ModelDisk::FileSystem* ModelDisk::reached_by(std::string_view path) const {
    for (const std::unique_ptr<FileSystem>& file_system : file_systems_) {
        if (file_system->mounted && file_system->shows(path)) {
            return file_system.get();
        }
    }
    return nullptr;
}

ModelDisk::FileSystem& ModelDisk::mounted_at(const std::string& mount_point) const {
    const auto found = std::find_if(
        file_systems_.begin(), file_systems_.end(), [&mount_point](const auto& file_system) {
            return file_system->mount_point == mount_point;
        });
    assert(found != file_systems_.end());
    return **found;
}

ModelDisk::FileSystem& ModelDisk::add_file_system(const std::string& mount_point) {
    constexpr std::uint64_t first_device = 100;
    auto made = std::make_unique<FileSystem>();
    made->mount_point = mount_point;
    made->device = first_device + file_systems_.size();
    made->root = new Inode(*made, next_inode_++, FileKind::directory);
    made->root->links = 1;
    return *file_systems_.emplace_back(std::move(made));
}

void ModelDisk::user_unmount(
    const std::string& mount_point, const std::vector<std::string>& directories) {
    mounted_at(mount_point).mounted = false;
    if (reached_by(mount_point) != nullptr) {
        return;
    }
    FileSystem& beneath = add_file_system(mount_point);
    for (const std::string& directory : directories) {
        beneath.place_for_user(mount_point + "/" + directory + "/.", next_inode_);
    }
}

void ModelDisk::user_mount(const std::string& mount_point, bool renumbered) {
    FileSystem& file_system = mounted_at(mount_point);
    file_system.mounted = true;
    file_system.device += renumbered ? 1'000 : 0;
}

ModelDisk::Verdict ModelDisk::admit(Op op, const FileSystem& file_system, std::uint64_t epoch) {
    const std::int64_t number = operations_++;
    const Verdict no_power{EIO, true, -1};
    if (!powered_ || epoch != epoch_) {
        return no_power;
    }
    for (auto fault = faults_.begin(); fault != faults_.end(); ++fault) {
        const bool strikes =
            number >= fault->at_operation && (!fault->only.has_value() || *fault->only == op)
            && (fault->mount_point.empty() || fault->mount_point == file_system.mount_point);
        if (!strikes) {
            continue;
        }
        const Verdict verdict{fault->os_errno, false, fault->short_write_bytes};
        const bool lose_power_now = fault->lose_power_instead;
        const bool end_process_now = fault->end_process_instead;
        if (!fault->for_ever) {
            faults_.erase(fault);
        }
        if (end_process_now) {
            powered_ = false;
            ++epoch_;
            return no_power;
        }
        if (lose_power_now) {
            lose_power(random_);
            return no_power;
        }
        return verdict;
    }
    if (observer_) {
        observer_(op, file_system.mount_point);
    }
    return powered_ && epoch == epoch_ ? Verdict{} : no_power;
}

Result<std::unique_ptr<recorder::Directory>> ModelDisk::open_directory(const std::string& path) {
    FileSystem* const home = reached_by(path);
    if (home == nullptr) {
        ++operations_;
        return refused("open", path, powered_ ? ENOENT : EIO);
    }
    if (const Verdict verdict = admit(Op::open, *home, epoch_); verdict.refuses()) {
        return verdict.error("open", path);
    }
    Inode* const found = home->find_seen(path);
    if (found == nullptr || found->kind != FileKind::directory) {
        return refused("open", path, found == nullptr ? ENOENT : ENOTDIR);
    }
    return std::unique_ptr<recorder::Directory>(
        std::make_unique<OpenDirectory>(*this, found, path));
}

void ModelDisk::lose_power(Random& random) {
    if (!powered_) {
        return;
    }
    for (const std::unique_ptr<FileSystem>& file_system : file_systems_) {
        file_system->lose_power(random);
    }
    powered_ = false;
    ++epoch_;
}

void ModelDisk::power_on() {
    powered_ = true;
}

void ModelDisk::set_faults(std::vector<Fault> faults) {
    faults_ = std::move(faults);
}

void ModelDisk::set_observer(Observer observer) {
    observer_ = std::move(observer);
}

void ModelDisk::share_device(const std::string& mount_point, const std::string& with) {
    mounted_at(mount_point).device = mounted_at(with).device;
}

void ModelDisk::set_capacity(const std::string& mount_point, std::int64_t bytes) {
    mounted_at(mount_point).capacity = bytes;
}

std::int64_t ModelDisk::used(const std::string& mount_point) const {
    return mounted_at(mount_point).used;
}

void ModelDisk::set_read_only(const std::string& mount_point, bool read_only) {
    mounted_at(mount_point).read_only = read_only;
}

void ModelDisk::fail_writeback(const std::string& path) {
    FileSystem& home = *file_system_of(path);
    Inode* const found = home.find_seen(path);
    assert(found != nullptr);
    found->fail_writeback();
}

void ModelDisk::user_remove_tree(const std::string& path) {
    FileSystem& home = *file_system_of(path);
    home.commit_names(home.log.size());
    const auto [directory, name] = home.place_for_user(path, next_inode_);
    take_from(directory->durable_entries, name);
    std::vector<Inode::Ref> doomed{take_from(directory->entries, name)};
    while (!doomed.empty()) {
        const Inode::Ref inode = std::move(doomed.back());
        doomed.pop_back();
        home.detach(*inode);
        for (Inode::Entry& entry : inode->entries) {
            doomed.push_back(std::move(entry.inode));
        }
        inode->entries.clear();
    }
}

void ModelDisk::user_write(const std::string& path, std::string_view bytes) {
    FileSystem& home = *file_system_of(path);
    home.commit_names(home.log.size());
    const auto [directory, name] = home.place_for_user(path, next_inode_);
    const Inode::Ref made(new Inode(home, next_inode_++, FileKind::regular));
    made->seen = bytes;
    made->modified_ns = ++clock_ns_;
    home.attach(*directory, name, made);
    put_in(directory->durable_entries, name, made);
}

void ModelDisk::user_edit_in_place(const std::string& path, std::string_view bytes) {
    FileSystem& home = *file_system_of(path);
    home.commit_names(home.log.size());
    Inode* const found = home.find_seen(path);
    assert(found != nullptr && found->kind == FileKind::regular);
    found->set_size(0);
    found->put(0, bytes);
    found->make_durable();
    found->modified_ns = ++clock_ns_;
}

void ModelDisk::user_rename(const std::string& from, const std::string& to) {
    FileSystem& home = *file_system_of(from);
    assert(file_system_of(to) == &home);
    home.commit_names(home.log.size());
    const auto [source, source_name] = home.place_for_user(from, next_inode_);
    const auto [target, target_name] = home.place_for_user(to, next_inode_);
    take_from(source->durable_entries, source_name);
    const Inode::Ref moved = take_from(source->entries, source_name);
    home.attach(*target, target_name, moved);
    put_in(target->durable_entries, target_name, moved);
}

std::optional<std::string> ModelDisk::seen(const std::string& path) const {
    const FileSystem* const home = file_system_of(path);
    const Inode* const found = home == nullptr ? nullptr : home->find_seen(path);
    return found == nullptr ? std::nullopt : shown(*found, found->seen);
}

std::optional<std::string_view> ModelDisk::peek(const std::string& path) const {
    const FileSystem* const home = file_system_of(path);
    const Inode* const found = home == nullptr ? nullptr : home->find_seen(path);
    const bool regular = found != nullptr && found->kind == FileKind::regular;
    return regular ? std::optional<std::string_view>(found->seen) : std::nullopt;
}

std::map<std::string, std::string_view, std::less<>>
ModelDisk::peek_files(const std::string& path) const {
    std::map<std::string, std::string_view, std::less<>> files;
    const FileSystem* const home = file_system_of(path);
    std::vector<std::pair<const Inode*, std::string>> directories{
        {home == nullptr ? nullptr : home->find_seen(path), ""}};
    while (!directories.empty()) {
        const auto [here, prefix] = std::move(directories.back());
        directories.pop_back();
        for (std::size_t index = 0; here != nullptr && index < here->entries.size(); ++index) {
            const Inode::Entry& entry = here->entries[index];
            if (entry.inode->kind == FileKind::directory) {
                directories.emplace_back(entry.inode.get(), prefix + entry.name + "/");
            } else {
                files.emplace_hint(files.end(), prefix + entry.name, entry.inode->seen);
            }
        }
    }
    return files;
}

std::optional<std::string> ModelDisk::durable(const std::string& path) const {
    const FileSystem* const home = file_system_of(path);
    const Inode* const found = home == nullptr ? nullptr : home->find_durable(path);
    return found == nullptr ? std::nullopt : shown(*found, found->durable());
}

std::map<std::string, std::string> ModelDisk::seen_tree(const std::string& path) const {
    const FileSystem* const home = file_system_of(path);
    return tree_of(home == nullptr ? nullptr : home->find_seen(path), path);
}

std::vector<std::string> ModelDisk::seen_names(const std::string& path) const {
    std::vector<std::string> names;
    const FileSystem* const home = file_system_of(path);
    const Inode* const found = home == nullptr ? nullptr : home->find_seen(path);
    for (std::size_t index = 0; found != nullptr && index < found->entries.size(); ++index) {
        names.push_back(found->entries[index].name);
    }
    return names;
}

std::map<std::string, std::string> ModelDisk::seen_beneath(const std::string& mount_point) const {
    const auto beneath = std::find_if(
        file_systems_.rbegin(), file_systems_.rend(), [&mount_point](const auto& file_system) {
            return file_system->mount_point == mount_point;
        });
    assert(beneath->get() != &mounted_at(mount_point));
    return tree_of((*beneath)->root.get(), mount_point);
}

std::map<std::string, std::string>
ModelDisk::tree_of(const Inode* directory, const std::string& path) {
    std::map<std::string, std::string> tree;
    std::vector<std::pair<const Inode*, std::string>> directories;
    if (directory != nullptr && directory->kind == FileKind::directory) {
        directories.emplace_back(directory, path + "/");
    }
    while (!directories.empty()) {
        const auto [here, prefix] = std::move(directories.back());
        directories.pop_back();
        for (const Inode::Entry& entry : here->entries) {
            std::string name = prefix + entry.name;
            std::optional<std::string> content = shown(*entry.inode, entry.inode->seen);
            if (content.has_value()) {
                tree.emplace(std::move(name), *std::move(content));
            } else {
                directories.emplace_back(entry.inode.get(), name + "/");
                tree.emplace(name + "/", "");
            }
        }
    }
    return tree;
}

bool ModelDisk::is_settled(const std::string& path) const {
    const FileSystem* const home = file_system_of(path);
    const Inode* const found = home == nullptr ? nullptr : home->find_seen(path);
    return found == nullptr
           || (found->changes.empty() && (!found->diverged || found->seen == found->left));
}

bool ModelDisk::is_durable(
    const std::string& path, std::int64_t offset, std::string_view bytes) const {
    const FileSystem* const home = file_system_of(path);
    const Inode* const found = home == nullptr ? nullptr : home->find_seen(path);
    if (found == nullptr || offset < 0) {
        return false;
    }
    const std::string durable = found->durable();
    const auto start = static_cast<std::size_t>(offset);
    return start <= durable.size()
           && std::string_view(durable).substr(start, bytes.size()) == bytes;
}

}  // namespace relay::tests
