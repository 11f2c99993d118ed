// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/support/model_disk.hpp"

#include <boost/smart_ptr/intrusive_ptr.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// What the model's disks are made of. For its own source alone.

namespace relay::tests {

inline constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

struct ModelDisk::Inode {
    using Ref = boost::intrusive_ptr<Inode>;

    struct Entry {
        std::string name;
        Ref inode;
    };
    using Entries = std::vector<Entry>;  // sorted by name

    // One write or change of size since the last sync, and how to undo it.
    struct Change {
        std::size_t offset = 0;
        std::size_t size = 0;
        bool zeroes = false;             // what was cut off reads as zeros from then on
        std::size_t size_before = 0;     // of the file
        std::size_t overwritten_at = 0;  // where the bytes that were there begin in `overwritten`
    };

    Inode(FileSystem& home_system, std::uint64_t inode_number, recorder::FileKind file_kind)
        : home(home_system), number(inode_number), kind(file_kind) {}

    friend void intrusive_ptr_add_ref(Inode* inode) { ++inode->references; }
    friend void intrusive_ptr_release(Inode* inode) {
        if (--inode->references == 0) {
            delete inode;
        }
    }

    // Whether `inode` is this directory or somewhere below it.
    [[nodiscard]] bool contains(const Inode* inode) const {
        while (inode != nullptr && inode != this) {
            inode = inode->parent;
        }
        return inode == this;
    }

    void undo(const Change& change, std::string& content) const;
    void forget_changes();
    void put(std::size_t offset, std::string_view bytes);
    void set_size(std::size_t size);
    // What a power loss would leave if nothing happened to reach the disk.
    [[nodiscard]] std::string durable() const;
    void make_durable();
    void fail_writeback();
    void lose_power(Random& random);

    FileSystem& home;
    std::uint64_t number;
    recorder::FileKind kind;
    std::uint32_t references = 0;
    std::uint32_t handles = 0;
    std::uint64_t links = 0;
    Inode* parent = nullptr;  // the directory that shows it; it outlives the entry
    std::int64_t modified_ns = 0;
    std::uint64_t charged_in =
        0;  // its bytes count against the capacity in this FileSystem::charge_epoch

    std::string seen;  // of a link: the target, which is durable with its name
    std::vector<Change> changes;
    std::string overwritten;
    std::vector<std::size_t> sizes;  // that were seen since the last sync
    std::size_t dirty_slot = none;   // in FileSystem::dirty
    std::uint64_t writeback_errors = 0;
    // A sync was refused: without its changes it is not what was seen at the last sync, but this.
    bool diverged = false;
    std::string left;

    Entries entries;
    Entries durable_entries;
    const void* locked_by = nullptr;
    std::uint64_t lock_epoch = 0;
};

struct ModelDisk::FileSystem {
    using Ref = Inode::Ref;

    // A name made, removed or moved, and not yet durable. Without `from` it appears, without `to`
    // it goes.
    struct NameChange {
        Ref from;
        std::string from_name;
        Ref to;
        std::string to_name;
        Ref inode;
    };

    [[nodiscard]] bool shows(std::string_view path) const {
        return path.starts_with(mount_point)
               && (path.size() == mount_point.size() || path[mount_point.size()] == '/');
    }
    [[nodiscard]] Inode* find(std::string_view path, Inode::Entries Inode::*entries) const;
    [[nodiscard]] Inode* find_seen(std::string_view path) const {
        return find(path, &Inode::entries);
    }
    [[nodiscard]] Inode* find_durable(std::string_view path) const {
        return find(path, &Inode::durable_entries);
    }
    std::pair<Inode*, std::string_view>
    place_for_user(std::string_view path, std::uint64_t& next_inode);
    void attach(Inode& directory, std::string_view name, const Ref& inode);
    void detach(Inode& inode);
    void settle_charge(Inode& inode);
    void commit_names(std::size_t count);
    void lose_power(Random& random);
    void lose_names(Random& random);
    void recount();
    void mark_dirty(Inode& inode);
    void unmark_dirty(Inode& inode);

    std::string mount_point;
    std::uint64_t device = 0;
    bool mounted = true;
    bool read_only = false;
    std::int64_t capacity = unlimited;
    std::int64_t used = 0;
    std::uint64_t charge_epoch = 1;  // one more with each power loss
    std::uint64_t writeback_errors = 0;
    Ref root;
    std::vector<NameChange> log;
    std::vector<Ref> dirty;
};

}  // namespace relay::tests
