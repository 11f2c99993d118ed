// SPDX-License-Identifier: Apache-2.0

// A home that a killed daemon left behind, with any of its bytes changed: recovery ends, leaks no handle,
// leaves sealed turns alone, and a second recovery changes nothing that the first one left.

#include "tests/fuzz/fuzz_input.hpp"
#include "tests/fuzz/left_behind.hpp"

#include <map>
#include <string>
#include <vector>

namespace relay::tests {
namespace {

using Tree = std::map<std::string, std::string>;

// One change of one file, as the input says.
void meddle(Tree& tree, FuzzInput& input) {
    auto file = tree.begin();
    std::advance(file, input.byte() % tree.size());
    std::string& content = file->second;
    const std::uint8_t act = input.byte();
    const std::size_t at = content.empty() ? 0 : input.number() % content.size();
    switch (act % 6) {
    case 0:
        if (!content.empty()) {
            content[at] = static_cast<char>(input.byte());
        }
        break;
    case 1:
        content.resize(at);
        break;
    case 2:
        content.insert(at, input.bytes(input.byte()));
        break;
    case 3:
        tree.erase(file);
        return;
    case 4: {
        const std::string_view bytes = input.bytes(input.byte());
        content.replace(at, bytes.size(), bytes);
        break;
    }
    default:
        content.replace(
            at, 512, std::string(std::min<std::size_t>(512, content.size() - at), '\0'));
        break;
    }
    if ((act & 0x80) == 0) {
        if (file->first.find("/segment-") != std::string::npos) {
            mend_journal_checksums(content);
        } else if (file->first.find("/checkpoint.") != std::string::npos) {
            mend_checkpoint_checksum(content);
        }
    }
}

Tree tree_of(const ModelDisk& disk) {
    Tree all;
    for (const std::string mount : {"/one", "/two"}) {
        for (auto& [path, content] : disk.seen_tree(mount)) {
            if (!path.ends_with('/')) {
                all.emplace(path, content);
            }
        }
    }
    return all;
}

// A whole process: its start, and its end before anything else happens.
bool recovers(RecorderWorld& world) {
    bool recovered = false;
    {
        const auto report = world.recover();
        recovered = report.ok();
        HOLDS(recovered || !report.error().context.empty());
    }
    world.kill();
    return recovered;
}

// The files of turns that have a seal, as they lie.
Tree sealed(const Tree& tree) {
    Tree all;
    for (const auto& [path, content] : tree) {
        if (!path.ends_with("-state.json")) {
            continue;
        }
        const std::string stem = path.substr(0, path.size() - std::string("state.json").size());
        for (auto file = tree.lower_bound(stem);
             file != tree.end() && file->first.starts_with(stem);
             ++file) {
            all.insert(*file);
        }
    }
    return all;
}

}  // namespace
}  // namespace relay::tests

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace relay::tests;
    static const Tree original = left_behind();
    FuzzInput input(data, size);
    Tree tree = original;
    for (int acts = 0; acts < 8 && !input.empty() && !tree.empty(); ++acts) {
        meddle(tree, input);
    }
    RecorderWorld world;
    for (const auto& [path, content] : tree) {
        world.disk.user_write(path, content);
    }
    const Tree before = sealed(tree_of(world.disk));
    const bool first = recovers(world);
    HOLDS(world.disk.open_handles() == 0);
    const Tree once = tree_of(world.disk);
    // Where the journal was changed too, its bytes may say anything; a sound one never touches a seal.
    bool journal_is_sound = true;
    for (const auto& [path, content] : original) {
        if (path.starts_with("/journal/")) {
            const auto found = tree.find(path);
            journal_is_sound = journal_is_sound && found != tree.end() && found->second == content;
        }
    }
    for (const auto& [path, content] : before) {
        const auto found = once.find(path);
        HOLDS(!journal_is_sound || (found != once.end() && found->second == content));
    }
    HOLDS(recovers(world) == first);
    HOLDS(!first || tree_of(world.disk) == once);
    return 0;
}
