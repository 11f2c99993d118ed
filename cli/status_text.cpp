// SPDX-License-Identifier: Apache-2.0
#include "cli/status_text.hpp"

#include "cli/human_text.hpp"
#include "cli/terminal_text.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string_view>

namespace relay::cli {

namespace {

using nlohmann::ordered_json;

std::int64_t number(const ordered_json& object, const char* name) {
    const auto found = object.is_object() ? object.find(name) : object.end();
    return object.is_object() && found != object.end() && found->is_number_integer()
               ? found->get<std::int64_t>()
               : 0;
}

std::string text(const ordered_json& object, const char* name) {
    const auto found = object.is_object() ? object.find(name) : object.end();
    return object.is_object() && found != object.end() && found->is_string()
               ? found->get<std::string>()
               : "";
}

ordered_json member(const ordered_json& object, const char* name) {
    const auto found = object.find(name);
    return found != object.end() ? *found : ordered_json();
}

std::string bytes_text(std::int64_t bytes) {
    return count_text(bytes) + "B";
}

std::string microseconds_text(std::int64_t microseconds) {
    return microseconds < 1000 ? std::to_string(microseconds) + "us"
                               : duration_text(microseconds / 1000);
}

// Below which of its bounds that share of the commits took; empty when there were none.
std::string within(const ordered_json& histogram, std::int64_t percent) {
    std::int64_t all = 0;
    for (const ordered_json& bucket : histogram) {
        all += number(bucket, "count");
    }
    std::int64_t so_far = 0;
    for (const ordered_json& bucket : histogram) {
        so_far += number(bucket, "count");
        if (all > 0 && so_far * 100 >= all * percent) {
            return microseconds_text(number(bucket, "below"));
        }
    }
    return "";
}

class Lines {
public:
    void add(std::string_view label, const std::string& words) {
        constexpr std::size_t column = 12;
        std::string line = "  " + std::string(label);
        line.resize(2 + column, ' ');
        text_ += line + harmless(words) + "\n";
    }
    [[nodiscard]] const std::string& text() const { return text_; }

private:
    std::string text_;
};

void add_work(const ordered_json& status, const ordered_json& errors, Lines& lines) {
    lines.add(
        "sessions",
        std::to_string(number(status, "sessions")) + " being recorded, "
            + counted(number(status, "connections"), "connection") + ", "
            + counted(number(status, "followers"), "follower"));
    lines.add(
        "events",
        std::to_string(number(status, "events")) + " taken, "
            + std::to_string(number(status, "acks")) + " answered, "
            + std::to_string(number(errors, "refused")) + " refused, "
            + counted(number(status, "redactions"), "redaction"));
    lines.add(
        "waiting",
        counted(number(status, "queue_depth"), "change") + ", "
            + bytes_text(number(status, "inflight_bytes")) + " in flight");
    if (const std::int64_t refused = number(errors, "refused_connections"); refused > 0) {
        lines.add("refused", counted(refused, "connection") + " beyond daemon.max_connections");
    }
}

void add_journal(const ordered_json& status, Lines& lines) {
    lines.add(
        "journal",
        bytes_text(number(status, "journal_bytes")) + ", batch "
            + std::to_string(number(status, "journal_lsn")) + ", "
            + duration_text(number(status, "checkpoint_age_ms")) + " without a checkpoint");
    const ordered_json times = member(status, "fsync_us");
    const std::string half = within(times, 50);
    lines.add(
        "commits",
        std::to_string(number(status, "commits")) + " with "
            + counted(number(status, "changes"), "change")
            + (half.empty()
                   ? ""
                   : ", half of them within " + half + ", 99% within " + within(times, 99)));
}

}  // namespace

std::string status_text(const ordered_json& status) {
    Lines lines;
    const ordered_json errors = member(status, "errors");
    lines.add(
        "version",
        text(status, "version") + ", protocol " + std::to_string(number(status, "protocol")));
    lines.add("up", duration_text(number(status, "uptime_ms")));
    add_work(status, errors, lines);
    add_journal(status, lines);
    for (const ordered_json& volume : member(status, "volumes")) {
        const std::string reason = text(volume, "reason");
        lines.add(
            "volume",
            text(volume, "anchor") + " (" + text(volume, "name") + "): " + text(volume, "state")
                + (reason.empty() ? "" : " since " + text(volume, "since") + ", " + reason) + ", "
                + counted(number(volume, "sessions"), "session") + ", "
                + counted(number(volume, "queued"), "change") + " waiting");
    }
    for (const char* const part : {"journal", "checkpoint"}) {
        if (const std::string sentence = text(errors, part); !sentence.empty()) {
            lines.add("ill", "the " + std::string(part) + " failed: " + sentence);
        }
    }
    return lines.text();
}

}  // namespace relay::cli
