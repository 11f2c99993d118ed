// SPDX-License-Identifier: Apache-2.0
#include "cli/prometheus_text.hpp"

#include "layout/json_writer.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>

namespace relay::cli {

namespace {

using nlohmann::ordered_json;

struct Metric {
    std::string_view name;  // without "agent_relay_"
    std::string_view type;
    std::string_view help;
    const char* member;  // of the status; "a/b": b of a
    double scale = 1;
};

constexpr double from_ms = 1e-3;
constexpr std::array metrics{
    Metric{"uptime_seconds", "gauge", "Time since the daemon was started.", "/uptime_ms", from_ms},
    Metric{"sessions", "gauge", "Sessions that are being recorded.", "/sessions"},
    Metric{"connections", "gauge", "Clients that are connected.", "/connections"},
    Metric{"followers", "gauge", "Connections that follow sessions.", "/followers"},
    Metric{"events_total", "counter", "Events taken for recording.", "/events"},
    Metric{"acks_total", "counter", "Events answered with an ack.", "/acks"},
    Metric{"redactions_total", "counter", "Secrets hidden before recording.", "/redactions"},
    Metric{"queue_depth", "gauge", "Changes whose outcome is open.", "/queue_depth"},
    Metric{"inflight_bytes", "gauge", "Bytes of unanswered events.", "/inflight_bytes"},
    Metric{"journal_bytes", "gauge", "Journal segments in use.", "/journal_bytes"},
    Metric{"journal_lsn", "gauge", "Number of the last durable batch.", "/journal_lsn"},
    Metric{
        "checkpoint_age_seconds",
        "gauge",
        "Age of the oldest change that no checkpoint covers.",
        "/checkpoint_age_ms",
        from_ms},
    Metric{"commits_total", "counter", "Batches written to the journal and synced.", "/commits"},
    Metric{
        "changes_total",
        "counter",
        "Changes in them; changes by commits is the size of a batch.",
        "/changes"},
    Metric{"refused_total", "counter", "Requests answered with an error.", "/errors/refused"},
    Metric{
        "refused_connections_total",
        "counter",
        "Connections beyond daemon.max_connections.",
        "/errors/refused_connections"},
};

void begin(std::string& out, std::string_view name, std::string_view type, std::string_view help) {
    for (const auto& [word, text] : {std::pair{"HELP", help}, std::pair{"TYPE", type}}) {
        out.append("# ").append(word).append(" agent_relay_").append(name);
        out.append(" ").append(text).append("\n");
    }
}

void sample(std::string& out, std::string_view name, const std::string& labels, double value) {
    out.append("agent_relay_").append(name).append(labels).append(" ");
    layout::append_json_number(out, value);
    out += '\n';
}

// Backslash, quote and newline are escaped; anything else may stand in a label.
std::string label(std::string_view key, std::string_view value) {
    std::string text = std::string(key) + "=\"";
    for (const char letter : value) {
        if (letter == '\n') {
            text += "\\n";
            continue;
        }
        text += letter == '"' || letter == '\\' ? "\\" : "";
        text += letter;
    }
    return text + '"';
}

double number_at(const ordered_json& value, const char* key) {
    const auto found = value.find(key);
    return found != value.end() && found->is_number() ? found->get<double>() : 0;
}

std::string text_at(const ordered_json& value, const char* key) {
    const auto found = value.find(key);
    return found != value.end() && found->is_string() ? found->get<std::string>() : "";
}

// The daemon's buckets count what is below a power of two of microseconds, each for itself, and only those are told that
// have something; Prometheus's count all that is at most a bound, and are always the same. A whole microsecond lies between the two.
void add_latency(std::string& out, const ordered_json& status) {
    const auto buckets = status.find("fsync_us");
    if (buckets == status.end() || !buckets->is_array()) {
        return;
    }
    begin(out, "fsync_seconds", "histogram", "Time a commit of the journal took, sync and all.");
    const auto count_below = [&buckets](double bound_us) {
        double count = 0;
        for (const ordered_json& bucket : *buckets) {
            count += number_at(bucket, "below") <= bound_us ? number_at(bucket, "count") : 0;
        }
        return count;
    };
    // 64 µs to 4 s; the daemon's last bucket has no upper bound.
    for (std::int64_t bound_us = 64; bound_us < 5'000'000; bound_us *= 2) {
        const auto bound_of_bucket = static_cast<double>(bound_us);
        std::string bound;
        layout::append_json_number(bound, bound_of_bucket / 1e6);
        sample(
            out,
            "fsync_seconds_bucket",
            "{" + label("le", bound) + "}",
            count_below(bound_of_bucket));
    }
    const double count = count_below(std::numeric_limits<double>::infinity());
    sample(out, "fsync_seconds_bucket", R"({le="+Inf"})", count);
    sample(out, "fsync_seconds_sum", "", number_at(status, "fsync_us_sum") / 1e6);
    sample(out, "fsync_seconds_count", "", count);
}

void add_volumes(std::string& out, const ordered_json& status) {
    const auto volumes = status.find("volumes");
    if (volumes == status.end() || !volumes->is_array()) {
        return;
    }
    const auto labels = [](const ordered_json& volume) {
        return "{" + label("volume", text_at(volume, "name")) + ","
               + label("anchor", text_at(volume, "anchor")) + "}";
    };
    begin(out, "volume_up", "gauge", "1 while the file system takes writes, 0 while events wait.");
    for (const ordered_json& volume : *volumes) {
        sample(out, "volume_up", labels(volume), text_at(volume, "state") == "well" ? 1 : 0);
    }
    begin(out, "volume_sessions", "gauge", "Sessions in work on the file system.");
    for (const ordered_json& volume : *volumes) {
        sample(out, "volume_sessions", labels(volume), number_at(volume, "sessions"));
    }
    begin(out, "volume_queued", "gauge", "Changes that wait for the file system.");
    for (const ordered_json& volume : *volumes) {
        sample(out, "volume_queued", labels(volume), number_at(volume, "queued"));
    }
}

void add_failures(std::string& out, const ordered_json& status) {
    const auto errors = status.find("errors");
    if (errors == status.end() || !errors->is_object()) {
        return;
    }
    begin(
        out,
        "failing",
        "gauge",
        "1 while this part of the recorder fails; its words are in the log.");
    for (const char* const part : {"journal", "checkpoint"}) {
        sample(
            out,
            "failing",
            "{" + label("part", part) + "}",
            text_at(*errors, part).empty() ? 0 : 1);
    }
}

}  // namespace

std::string prometheus_text(const ordered_json& status) {
    std::string out;
    begin(out, "build_info", "gauge", "1, labelled with the version.");
    sample(out, "build_info", "{" + label("version", text_at(status, "version")) + "}", 1);
    for (const Metric& metric : metrics) {
        const ordered_json::json_pointer place(metric.member);
        if (status.contains(place) && status.at(place).is_number()) {
            begin(out, metric.name, metric.type, metric.help);
            sample(out, metric.name, "", status.at(place).get<double>() * metric.scale);
        }
    }
    add_latency(out, status);
    add_volumes(out, status);
    add_failures(out, status);
    return out;
}

}  // namespace relay::cli
