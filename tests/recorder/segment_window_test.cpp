// SPDX-License-Identifier: Apache-2.0
#include "layout/journal_batch.hpp"
#include "recorder/segment_window.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <string>

namespace relay::recorder {
namespace {

constexpr std::int64_t piece_bytes_most = std::int64_t{256} * 1024;

// A file in memory that notes how much is asked of it at once.
class NotedFile : public File {
public:
    explicit NotedFile(std::string content) : content_(std::move(content)) {}

    Result<std::size_t> read(std::int64_t offset, char* into, std::size_t size) override {
        most_at_once = std::max(most_at_once, static_cast<std::int64_t>(size));
        if (refuses) {
            return Error{Errc::io, EIO, "read the segment"};
        }
        return content_.copy(into, size, static_cast<std::size_t>(offset));
    }
    Status write(std::int64_t, std::string_view) override { return layout::Done{}; }
    Status sync() override { return layout::Done{}; }
    void start_writeback() override {}
    Status truncate(std::int64_t) override { return layout::Done{}; }
    Result<FileStat> stat() override { return FileStat{}; }

    std::int64_t most_at_once = 0;
    bool refuses = false;

private:
    std::string content_;
};

std::string sealed(std::size_t payload_bytes, std::uint64_t lsn) {
    std::string batch(layout::batch_header_bytes, '\0');
    batch.append(payload_bytes, 'x');
    layout::BatchHeader header;
    header.lsn = lsn;
    layout::seal_batch(batch, header);
    return batch;
}

std::string_view seen(SegmentWindow& window, std::int64_t offset, std::int64_t wanted) {
    auto bytes = window.bytes(offset, wanted);
    REQUIRE(bytes.ok());
    return bytes.value();
}

std::string_view batch_at(SegmentWindow& window, std::int64_t offset) {
    auto bytes = window.batch(offset);
    REQUIRE(bytes.ok());
    return bytes.value();
}

TEST_CASE("a segment is seen whole although a piece of it is in memory") {
    std::string content;
    for (int number = 0; content.size() < 1'000'000; ++number) {
        content += std::to_string(number) + ' ';
    }
    NotedFile file(content);
    const auto size = static_cast<std::int64_t>(content.size());
    SegmentWindow window(file, size);
    for (std::int64_t offset = 0; offset < size; offset += 999) {
        const auto wanted = std::min<std::int64_t>(4096, size - offset);
        REQUIRE(
            seen(window, offset, 4096)
            == std::string_view(content).substr(
                static_cast<std::size_t>(offset), static_cast<std::size_t>(wanted)));
    }
    CHECK(seen(window, 5, 2) == content.substr(5, 2));
    CHECK(seen(window, size, 1).empty());
    CHECK(seen(window, size + 4096, 1).empty());
    CHECK(file.most_at_once == piece_bytes_most);
}

TEST_CASE("a batch larger than a piece is read as a whole and no other one is") {
    const std::string large = sealed(3'000'000, 1);
    const std::string small = sealed(100, 2);
    NotedFile file(large + small);
    const auto large_bytes = static_cast<std::int64_t>(large.size());
    SegmentWindow window(file, large_bytes + static_cast<std::int64_t>(small.size()));
    CHECK(layout::decode_batch(batch_at(window, 0)).ok());
    CHECK(file.most_at_once == 3'000'000 + static_cast<std::int64_t>(layout::batch_header_bytes));
    const auto next = layout::decode_batch(batch_at(window, large_bytes));
    REQUIRE(next.ok());
    CHECK(next.value().lsn == 2);
    CHECK(batch_at(window, 4096).empty());
}

TEST_CASE("a batch that would end behind its segment is none") {
    const std::string batch = sealed(10'000, 1);
    NotedFile file(batch);
    SegmentWindow too_short(file, 8192);
    CHECK(batch_at(too_short, 0).empty());
    SegmentWindow whole(file, static_cast<std::int64_t>(batch.size()));
    CHECK_FALSE(batch_at(whole, 0).empty());
}

TEST_CASE("a segment file that is shorter than it was said to be ends where it ends") {
    NotedFile file(std::string(5000, 'x'));
    SegmentWindow window(file, 1'000'000);
    CHECK(seen(window, 4096, 4096).size() == 904);
    CHECK(window.size() == 5000);
    CHECK(seen(window, 8192, 4096).empty());
}

TEST_CASE("a segment that cannot be read says so and may be read again") {
    NotedFile file(std::string(5000, 'x'));
    SegmentWindow window(file, 5000);
    file.refuses = true;
    const auto refused = window.bytes(0, 10);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().os_errno == EIO);
    file.refuses = false;
    CHECK(seen(window, 0, 10).size() == 10);
}

}  // namespace
}  // namespace relay::recorder
