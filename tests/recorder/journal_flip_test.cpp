// SPDX-License-Identifier: Apache-2.0
#include "recorder/journal.hpp"
#include "tests/support/model_disk.hpp"
#include "tests/support/random.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace relay::recorder {
namespace {

using Segments = std::map<std::string, std::string>;

// A journal's segments in memory, to be read as fast as it gets: half a million times.
class ReadOnlyFile final : public File {
public:
    explicit ReadOnlyFile(const std::string& content) : content_(content) {}

    Result<std::size_t> read(std::int64_t offset, char* into, std::size_t size) override {
        const auto from = std::min(static_cast<std::size_t>(offset), content_.size());
        const std::size_t count = std::min(size, content_.size() - from);
        std::memcpy(into, content_.data() + from, count);
        return count;
    }
    Status write(std::int64_t, std::string_view) override { return refusal(); }
    Status sync() override { return layout::Done{}; }
    void start_writeback() override {}
    Status truncate(std::int64_t) override { return refusal(); }
    Result<FileStat> stat() override {
        FileStat found;
        found.size = static_cast<std::int64_t>(content_.size());
        found.links = 1;
        return found;
    }

private:
    static Error refusal() { return {Errc::io, 0, "a scan does not write"}; }
    const std::string& content_;
};

class ReadOnlyDirectory final : public Directory {
public:
    explicit ReadOnlyDirectory(const Segments& segments) : segments_(segments) {}

    Result<std::unique_ptr<File>> open_file(std::string_view name, OpenMode) override {
        const auto found = segments_.find(std::string(name));
        if (found == segments_.end()) {
            return Error{Errc::not_found, 0, std::string(name)};
        }
        return std::unique_ptr<File>(std::make_unique<ReadOnlyFile>(found->second));
    }
    Result<std::unique_ptr<Directory>> open_directory(std::string_view) override {
        return refusal();
    }
    Status make_directory(std::string_view) override { return refusal(); }
    Status rename(std::string_view, std::string_view) override { return refusal(); }
    Status rename_new(std::string_view, std::string_view) override { return refusal(); }
    Status remove(std::string_view) override { return refusal(); }
    Status make_symbolic_link(std::string_view, std::string_view) override { return refusal(); }
    Result<FileStat> stat(std::string_view) override { return refusal(); }
    Result<FileStat> stat() override { return refusal(); }
    Result<bool> deleted() override { return false; }
    Result<std::vector<std::string>> list() override {
        std::vector<std::string> names;
        for (const auto& [name, content] : segments_) {
            names.push_back(name);
        }
        return names;
    }
    Status sync() override { return layout::Done{}; }
    Status sync_file_system() override { return layout::Done{}; }
    Result<std::string> path() override { return std::string("/journal"); }
    Result<Durability> durability() override { return Durability::synced; }
    Status lock() override { return layout::Done{}; }
    void prefer_in_place_writes() override {}

private:
    static Error refusal() { return {Errc::io, 0, "a scan does not do that"}; }
    const Segments& segments_;
};

constexpr JournalLimits limits{.segment_bytes = 16 * 1024, .segments_max = 4};

// Two segments: a header and three batches in the first, a header and three batches in the second, of which the
// last one is empty and vouches for the others (Pipeline::vouch).
Segments small_journal() {
    tests::ModelDisk disk({"/journal"});
    tests::Random random(7);
    {
        auto directory = std::move(disk.open_directory("/journal").value());
        auto opened = Journal::open(*directory, limits, [&random] { return random.next(); });
        REQUIRE(opened.ok());
        REQUIRE(opened.value()->start({}, 1, 0).ok());
        for (const std::size_t bytes : {700U, 3000U, 100U, 1500U, 40U, 0U}) {
            std::string buffer(layout::batch_header_bytes, '\0');
            for (std::size_t count = 0; count < bytes; ++count) {
                buffer.push_back(static_cast<char>(random.next()));
            }
            REQUIRE(opened.value()->write(buffer).ok());
        }
    }
    Segments segments;
    for (auto& [path, content] : disk.seen_tree("/journal")) {
        segments.emplace(path.substr(path.rfind('/') + 1), content);
    }
    return segments;
}

struct Reading {
    bool refused = false;  // the scan says why it reads nothing
    TailVerdict verdict = TailVerdict::clean;
    std::vector<std::string> payloads;  // that hold anything
};

Reading read(const Segments& segments) {
    ReadOnlyDirectory directory(segments);
    auto opened = Journal::open(directory, limits, [] { return std::uint64_t{1}; });
    REQUIRE(opened.ok());
    const auto scanned = opened.value()->scan({});
    Reading reading;
    if (!scanned.ok()) {
        reading.refused = true;
        return reading;
    }
    reading.verdict = scanned.value().verdict;
    for (const BatchPlace& place : scanned.value().chain) {
        auto payload = opened.value()->read_payload(place);
        REQUIRE(payload.ok());
        if (!payload.value().empty()) {
            reading.payloads.push_back(std::move(payload.value()));
        }
    }
    return reading;
}

}  // namespace

// Every bit there is: a flip changes nothing that is read, or it is called damage.
TEST_CASE("every flipped bit of a small journal is called damage or changes nothing that is read") {
    Segments segments = small_journal();
    REQUIRE(segments.size() == 2);
    const Reading whole = read(segments);
    REQUIRE(whole.verdict == TailVerdict::clean);
    REQUIRE(whole.payloads.size() == 5);
    int flips = 0;
    int harmless = 0;
    int damage = 0;
    for (auto& [name, content] : segments) {
        for (std::size_t at = 0; at < content.size(); ++at) {
            for (int bit = 0; bit < 8; ++bit) {
                const char sound = content[at];
                content[at] = static_cast<char>(sound ^ static_cast<char>(1 << bit));
                const Reading reading = read(segments);
                content[at] = sound;
                ++flips;
                const bool told = reading.refused || reading.verdict == TailVerdict::damaged;
                const bool same = !reading.refused && reading.payloads == whole.payloads;
                damage += told ? 1 : 0;
                harmless += !told && same ? 1 : 0;
                REQUIRE_MESSAGE(
                    (told || same),
                    name << " at " << at << " bit " << bit << ": " << reading.payloads.size()
                         << " batches are read and nothing is said");
            }
        }
    }
    MESSAGE(
        flips << " flips: " << damage << " called damage, " << harmless
              << " in unused bytes or in the empty batch at the end");
    CHECK(flips == 2 * 16 * 1024 * 8);
    CHECK(damage >= (2 * 68 + 5 * 64 + 700 + 3000 + 100 + 1500 + 40) * 8);
}

}  // namespace relay::recorder
